"""A precision that no framework of the file has.

Why: a suite that does not know the name runs something else: TE_FP16 ran FP8, and its thresholds were then raised to
fit. The launch script always passes --bf16 and has no FP16 path.
Fix: say what was meant: TE_BF16, or TE_FP8 for FP8 matrix products.
"""

from steelyard.configs.suite.megatron import PRECISIONS
from steelyard.linting.rule import Problems, Reading, Rule

RULE = Rule("SY403", "error", on="reading")


def check(reading: Reading) -> Problems:
    stated = reading.params.get("precision")
    if stated is not None and reading.family != "steelyard" and stated.value.strip().upper() not in PRECISIONS:
        message = f"precision is {stated.value}, which is no precision of the launch script"
        fix = 'which was meant: "TE_BF16" (bf16 throughout) or "TE_FP8" (bf16 with FP8 products)?'
        yield RULE.at(reading, stated, message, fix, " or ".join(PRECISIONS))
