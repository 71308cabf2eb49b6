"""A parameter that nothing reads.

Why: in a JAX file the batch, precision, recomputation and sharding of the Megatron files are decoration: MaxText has
its own keys for them, and a reader takes the wrong ones for the truth.
Fix: remove it, or park it behind an underscore.
"""

from collections.abc import Iterator

from steelyard.configs.suite.keys import NOTHING, TABLES
from steelyard.experiment import Problem, Reading
from steelyard.linting.rule import Rule

RULE = Rule("SY112", "warning", on="reading")

HELD_ELSEWHERE = ("distributed_training",)
"""Keys that nothing reads and another rule holds to the facts."""


def check(reading: Reading) -> Iterator[Problem]:
    tables = TABLES.get(reading.family)
    if tables is None:
        return
    for table, stated in zip(tables, (reading.config, reading.params), strict=True):
        for name, found in stated.items():
            if table[name].reads == NOTHING and name not in HELD_ELSEWHERE:
                meaning = table[name].meaning.removeprefix("Nothing: ")
                yield RULE.at(
                    reading,
                    found.path,
                    message=f"{name}: nothing reads it",
                    fix=f"remove it, or park it as _{name} ({meaning.rstrip('.')})",
                    value=found.value,
                )
