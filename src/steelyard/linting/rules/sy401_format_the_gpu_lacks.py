"""The experiment asks for a number format the GPU has no units for.

Why: the job stops, or emulates the format at a fraction of the rate it is judged by.
Fix: choose a format the GPU has.
"""

from collections.abc import Iterator

from steelyard.experiment import Problem
from steelyard.experiment.case import Case
from steelyard.linting.rule import Rule

RULE = Rule("SY401", "error")


def check(case: Case) -> Iterator[Problem]:
    fp8, gpu = case.resolved.experiment.precision.fp8, case.placement.gpu
    if fp8 is not None and gpu is not None and gpu.fp8_tflops is None:
        yield RULE.problem(
            case,
            "precision.fp8",
            message=f"precision.fp8 is {fp8}, which the {gpu.name} has no units for",
            fix="--set precision.fp8=null",
            value=fp8,
            expected="null",
        )
