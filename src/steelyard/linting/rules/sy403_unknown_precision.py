"""The launch script does not support the precision.

Why: another suite runs something else under an unknown name. With TE_FP16 it ran FP8, and the thresholds were raised
to fit. The launch script always passes --bf16 and does not support FP16.
Fix: write what you intend: TE_BF16, or TE_FP8 for FP8 matrix products.
"""

from steelyard.configs.cvs.megatron import PRECISIONS
from steelyard.linting.rule import Edit, Problems, Reading, Rule

RULE = Rule("SY403", "error", on="reading")


def check(reading: Reading) -> Problems:
    stated = reading.params.get("precision")
    if stated is not None and reading.family != "steelyard" and stated.value.strip().upper() not in PRECISIONS:
        message = f"precision is {stated.value}, which the launch script does not support: it would run bf16"
        fix = 'write "TE_BF16" (bf16 throughout) or "TE_FP8" (bf16 with FP8 products)'
        choices = [Edit(stated.path, name) for name in PRECISIONS]
        yield RULE.at(reading, stated, message, fix, " or ".join(PRECISIONS), choices=choices)
