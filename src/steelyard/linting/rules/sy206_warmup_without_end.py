"""Warm-up is not over before training is.

Why: the peak learning rate is never reached, or not held for a step, so the schedule is not the one the file states.
Fix: shorten `warmup_steps`, or train longer.
"""

from collections.abc import Iterator

from steelyard.experiment import Problem
from steelyard.experiment.case import Case
from steelyard.linting.rule import Rule

RULE = Rule("SY206", "warning")


def check(case: Case) -> Iterator[Problem]:
    training = case.resolved.experiment.training
    if training.warmup_steps and training.warmup_steps >= training.steps:
        yield RULE.problem(
            case,
            "training.warmup_steps",
            message=f"training.warmup_steps is {training.warmup_steps} of {training.steps} steps",
            fix=f"--set training.warmup_steps={training.steps // 10}",
            value=training.warmup_steps,
            expected=f"fewer than training.steps ({training.steps})",
        )
