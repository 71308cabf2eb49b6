"""The framework pads the vocabulary.

Why: Megatron and its kin round it up to 128 x tensor parallel, MaxText does not; the first loss is the logarithm of the
padded size, and two sides padded differently do not start alike. 128256 is padded from tensor parallel 4 on.
Fix: none needed; choose the same tensor parallelism on both sides where curves are to be compared.
"""

from dataclasses import replace

from steelyard.frameworks.planner import expected_vocabulary
from steelyard.linting.rule import Case, Problems, Rule

RULE = Rule("SY306", "info")


def check(case: Case) -> Problems:
    padded, stated = expected_vocabulary(case), case.resolved.experiment.model.vocab_size
    if padded != stated:
        tensor = case.resolved.experiment.parallelism.tensor_parallel_size
        message = f"the vocabulary of {stated:,} is padded to {padded:,} at tensor parallel {tensor}"
        fix = "nothing, or the same tensor parallelism on both sides of a comparison"
        yield replace(RULE.problem(case, "parallelism.tensor_parallel_size", message, fix, tensor), optional=True)
