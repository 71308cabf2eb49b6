"""The sequence is longer than the model has positions for.

Why: learned positions run out, and rotary ones leave the range they were made for.
Fix: shorten `sequence_length`, or raise `max_position_embeddings` on purpose.
"""

from collections.abc import Iterator

from steelyard.experiment import Problem
from steelyard.experiment.case import Case
from steelyard.linting.rule import Rule

RULE = Rule("SY205", "error")


def check(case: Case) -> Iterator[Problem]:
    experiment = case.resolved.experiment
    length, positions = experiment.training.sequence_length, experiment.model.max_position_embeddings
    if length > positions:
        yield RULE.problem(
            case,
            "training.sequence_length",
            message=f"training.sequence_length is {length}",
            fix=f"--set training.sequence_length={positions}",
            value=length,
            expected=f"at most {positions} (model.max_position_embeddings)",
        )
