"""A parameter that nothing reads.

Why: in a JAX file the batch, precision, recomputation and sharding of the Megatron files are decoration: MaxText has
its own keys for them, and a reader takes the wrong ones for the truth.
Fix: remove it, or park it behind an underscore.
"""

from steelyard.configs.suite.keys import NOTHING, TABLES
from steelyard.linting.rule import Problems, Reading, Rule

RULE = Rule("SY112", "warning", on="reading")

HELD_ELSEWHERE = ("distributed_training",)
"""Keys that nothing reads and another rule holds to the facts."""


def check(reading: Reading) -> Problems:
    for table, values in zip(TABLES.get(reading.family, ()), (reading.config, reading.params), strict=False):
        for name, stated in values.items():
            if table[name].reads == NOTHING and name not in HELD_ELSEWHERE:
                meaning = table[name].meaning.removeprefix("Nothing: ").rstrip(".")
                fix = f"remove it, or park it as _{name} ({meaning})"
                yield RULE.at(reading, stated, f"{name}: nothing reads it", fix)
