"""An environment variable that nothing reads.

Why: it looks like a time limit or a choice of kernel, but has no effect.
Fix: remove it, or set the key that is read.
"""

from steelyard.configs.cvs.keys import UNREAD_ENV
from steelyard.linting.rule import Edit, Problems, Reading, Rule

RULE = Rule("SY114", "warning", on="reading")


def check(reading: Reading) -> Problems:
    for name, stated in reading.env.items():
        if name in UNREAD_ENV:
            instead = UNREAD_ENV[name]
            fix = f"remove it, and set {instead} of the model to {stated.value}" if instead else "remove it"
            corrections = [Edit(stated.path)]
            if instead and instead not in reading.params:
                corrections.append(Edit((*reading.params_path, instead), stated.value))
            message = f"{name} is {stated.value}, but nothing reads it on GPUs"
            yield RULE.at(reading, stated, message, fix, corrections=corrections)
