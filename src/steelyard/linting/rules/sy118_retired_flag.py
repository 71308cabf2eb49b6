"""A flag that newer XLA no longer has.

Why: XLA ends the program at a flag it does not know, so the file runs in one image and not in the next.
Fix: remove it.
"""

from steelyard.linting.rule import Problems, Reading, Rule, Stated

RULE = Rule("SY118", "warning", on="reading")

RETIRED = ("xla_gpu_graph_level",)


def check(reading: Reading) -> Problems:
    for flags in (reading.config.get("xla_flags"), reading.params.get("xla_flags")):
        for name in flags.value if flags else ():
            if flags and name in RETIRED:
                message = f"{name} is a flag that newer XLA no longer has, and it ends the program"
                yield RULE.at(reading, Stated(flags.value[name], (*flags.path, name)), message, "remove it")
