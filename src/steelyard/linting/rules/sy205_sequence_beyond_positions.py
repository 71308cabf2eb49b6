"""The sequence is longer than the model has positions for.

Why: learned positions run out, and rotary positions leave the range they were trained for.
Fix: shorten `sequence_length`, or raise `max_position_embeddings` if you intend that.
"""

from steelyard.linting.rule import Case, Problems, Rule

RULE = Rule("SY205", "error")


def check(case: Case) -> Problems:
    experiment = case.resolved.experiment
    length, positions = experiment.training.sequence_length, experiment.model.max_position_embeddings
    if length > positions:
        expected = f"at most {positions} (model.max_position_embeddings)"
        yield RULE.wrong(case, "training.sequence_length", length, expected, positions)
