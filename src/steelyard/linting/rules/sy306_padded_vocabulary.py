"""The framework pads the vocabulary.

Why: Megatron and its kin round it up to 128 x tensor parallel, MaxText does not; the first loss is the logarithm of the
padded size, and two sides padded differently do not start alike. 128256 is padded from tensor parallel 4 on.
Fix: none needed; choose the same tensor parallelism on both sides where curves are to be compared.
"""

from collections.abc import Iterator
from dataclasses import replace

from steelyard.experiment import Problem
from steelyard.experiment.case import Case
from steelyard.frameworks.cases import expected_vocabulary
from steelyard.linting.rule import Rule

RULE = Rule("SY306", "info")


def check(case: Case) -> Iterator[Problem]:
    experiment = case.resolved.experiment
    padded, stated = expected_vocabulary(case), experiment.model.vocab_size
    if padded != stated:
        tensor = experiment.parallelism.tensor_parallel_size
        problem = RULE.problem(
            case,
            "parallelism.tensor_parallel_size",
            message=f"the vocabulary of {stated:,} is padded to {padded:,} at tensor parallel {tensor}",
            fix="nothing, or the same tensor parallelism on both sides of a comparison",
            value=tensor,
        )
        yield replace(problem, optional=True)
