"""The peak learning rate is below the minimum learning rate.

Why: the schedule would rise where it is meant to fall.
Fix: swap the two values, or lower `min_learning_rate`.
"""

from steelyard.linting.rule import Case, Problems, Rule

RULE = Rule("SY207", "error", may_be_allowed=False)


def check(case: Case) -> Problems:
    training = case.resolved.experiment.training
    if training.min_learning_rate > training.learning_rate:
        expected = f"at most training.learning_rate ({training.learning_rate})"
        yield RULE.wrong(case, "training.min_learning_rate", training.min_learning_rate, expected, 0)
