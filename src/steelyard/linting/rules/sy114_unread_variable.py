"""A variable that nothing reads.

Why: whoever set it believes that a time limit or a kernel was chosen; nothing was.
Fix: remove it, or set what is read instead.
"""

from steelyard.configs.suite.keys import UNREAD_ENV
from steelyard.linting.rule import Problems, Reading, Rule

RULE = Rule("SY114", "warning", on="reading")


def check(reading: Reading) -> Problems:
    for name, stated in reading.env.items():
        if name in UNREAD_ENV:
            instead = UNREAD_ENV[name]
            fix = f"remove it, and give the model {instead}: {stated.value}" if instead else "remove it"
            yield RULE.at(reading, stated, f"{name} is {stated.value}, and nothing on the GPU path reads it", fix)
