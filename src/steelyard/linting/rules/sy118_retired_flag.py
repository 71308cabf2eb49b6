"""An XLA flag that newer versions do not have.

Why: XLA stops at an unknown flag, so the file works in one image and fails in the next.
Fix: remove it.
"""

from steelyard.configs.cvs.keys import COMPILER_FLAGS
from steelyard.frameworks.registry import every_facts
from steelyard.linting.rule import Edit, Problems, Reading, Rule, Stated

RULE = Rule("SY118", "warning", on="reading")


def check(reading: Reading) -> Problems:
    retired = {flag: program for each in every_facts() for flag, program in each.retired_flags.items()}
    for flags in (reading.config.get(COMPILER_FLAGS), reading.params.get(COMPILER_FLAGS)):
        for name in flags.value if flags else ():
            if flags and name in retired:
                message = f"{name} is unknown to newer {retired[name]}, which stops at unknown flags"
                stated = Stated(flags.value[name], (*flags.path, name))
                yield RULE.at(reading, stated, message, "remove it", corrections=[Edit(stated.path)])
