"""The framework pads the vocabulary.

Why: Megatron and frameworks based on it round the vocabulary up to a multiple of 128 x tensor parallel size; MaxText
does not. The first loss is the logarithm of the padded size, so runs with different padding start at different
losses. 128256 is padded from tensor parallel size 4 on.
Fix: nothing to fix. To compare loss curves, use the same tensor parallel size on both sides.
"""

from dataclasses import replace

from steelyard.frameworks.planner import expected_vocabulary
from steelyard.linting.rule import Case, Problems, Rule

RULE = Rule("SY306", "info")


def check(case: Case) -> Problems:
    padded, stated = expected_vocabulary(case), case.resolved.experiment.model.vocab_size
    if padded != stated:
        tensor = case.resolved.experiment.parallelism.tensor_parallel_size
        message = f"the vocabulary of {stated:,} is padded to {padded:,} with tensor parallel size {tensor}"
        fix = "nothing to fix; use the same tensor parallel size on both sides of a comparison"
        yield replace(RULE.problem(case, "parallelism.tensor_parallel_size", message, fix, tensor), optional=True)
