"""A parameter that nothing reads.

Why: MaxText has its own keys for batch, precision, recomputation and sharding. In a JAX file, Megatron's keys for
these have no effect, but a reader may take them for the values in use.
Fix: remove it, or put an underscore in front of its name, which disables it.
"""

from steelyard.configs.cvs.keys import NOTHING, TABLES
from steelyard.linting.rule import Edit, Problems, Reading, Rule

RULE = Rule("SY112", "warning", on="reading")

CHECKED_ELSEWHERE = ("distributed_training",)
"""Keys that nothing reads and another rule checks."""


def check(reading: Reading) -> Problems:
    for table, values in zip(TABLES.get(reading.family, ()), (reading.config, reading.params), strict=False):
        for name, stated in values.items():
            if table[name].reads == NOTHING and name not in CHECKED_ELSEWHERE:
                meaning = table[name].meaning.rstrip(".")
                fix = f"remove it, or rename it to _{name} ({meaning})"
                yield RULE.at(reading, stated, f"nothing reads {name}", fix, corrections=[Edit(stated.path)])
