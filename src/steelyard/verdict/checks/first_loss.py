"""The first loss is an untrained model's: ln(padded vocabulary) + hidden x std^2 / 2."""

import math
from collections.abc import Iterator

from steelyard.verdict.finding import Check, Found
from steelyard.verdict.subject import Subject

CHECK = Check("first_loss")
MARGIN = 0.05
"""Nats; wider where the first batch has so few tokens that its own noise is wider."""


def check(subject: Subject) -> Iterator[Found]:
    expected, steps = subject.expected("first_loss"), subject.steps
    if subject.events_of("resumed"):
        yield CHECK.not_applicable("it goes on from a checkpoint, so its first loss is no untrained model's")
    elif expected is None:
        yield CHECK.unknown("what an untrained model's loss would be is not known")
    elif not len(steps) or steps.step[0] != 1 or steps.steps_covered[0] != 1:
        yield CHECK.unknown("the loss of step 1 alone is not in the record", None, expected)
    elif not steps.loss.finite[0]:
        yield CHECK.unknown("step 1 has no finite loss", None, expected, subject.evidence_of_step(0))
    else:
        found, margin = float(steps.loss.values[0]), max(MARGIN, 4 * _noise(subject))
        close = abs(found - expected) <= margin
        words = "as" if close else "not as"
        message = f"the first loss is {found:.4f}, {words} an untrained model's {expected:.4f} +- {margin:.2g}"
        yield CHECK.judged(close, message, found, expected, subject.evidence_of_step(0))


def _noise(subject: Subject) -> float:
    """Standard error of a first batch's loss: logits are N(0, hidden x std^2)."""
    hidden, std = subject.whole("model.hidden_size"), subject.value("training.init_method_std")
    tokens, spread = subject.steps.tokens.values[0], subject.expected("logit_std")
    if spread is None and hidden is not None and isinstance(std, float):
        spread = math.sqrt(hidden) * std
    return spread / math.sqrt(tokens) if spread is not None and tokens > 0 else 0.0
