"""A flag that newer XLA no longer has.

Why: XLA ends the program at a flag it does not know, so the file runs in one image and not in the next.
Fix: remove it.
"""

from collections.abc import Iterator

from steelyard.experiment import Problem, Reading
from steelyard.linting.rule import Rule

RULE = Rule("SY118", "warning", on="reading")

RETIRED = ("xla_gpu_graph_level",)


def check(reading: Reading) -> Iterator[Problem]:
    for stated in (reading.config.get("xla_flags"), reading.params.get("xla_flags")):
        if stated is None:
            continue
        for name in stated.value:
            if name in RETIRED:
                yield RULE.at(
                    reading,
                    (*stated.path, name),
                    message=f"{name} is a flag that newer XLA no longer has, and it ends the program",
                    fix="remove it",
                    value=stated.value[name],
                )
