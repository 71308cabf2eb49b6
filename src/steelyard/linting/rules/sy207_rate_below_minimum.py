"""The peak learning rate is below the rate it is to decay to.

Why: the schedule would rise where the file says it falls.
Fix: swap the two, or lower `min_learning_rate`.
"""

from collections.abc import Iterator

from steelyard.experiment import Problem
from steelyard.experiment.case import Case
from steelyard.linting.rule import Rule

RULE = Rule("SY207", "error")


def check(case: Case) -> Iterator[Problem]:
    training = case.resolved.experiment.training
    if training.min_learning_rate > training.learning_rate:
        yield RULE.problem(
            case,
            "training.min_learning_rate",
            message=f"training.min_learning_rate is {training.min_learning_rate}",
            fix="--set training.min_learning_rate=0",
            value=training.min_learning_rate,
            expected=f"at most training.learning_rate ({training.learning_rate})",
        )
