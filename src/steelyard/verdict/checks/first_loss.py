"""The first loss is an untrained model's: ln(padded vocabulary) + hidden x std^2 / 2."""

import math

from steelyard.reasons import Code
from steelyard.verdict.finding import Check, Results
from steelyard.verdict.subject import Subject

CHECK = Check("first_loss")
FIRST_LOSS_AS_PLANNED = Code(
    "first_loss_as_planned", "the first loss is {observed:.4f}, as an untrained model's {expected:.4f} +- {margin:.2g}"
)
"""The first loss is that of an untrained model with the planned vocabulary and initialization."""
FIRST_LOSS_OFF = Code(
    "first_loss_off", "the first loss is {observed:.4f}, not as an untrained model's {expected:.4f} +- {margin:.2g}"
)
"""The first loss differs from that of an untrained model with the planned vocabulary and initialization."""
FIRST_LOSS_NOT_FINITE = Code("first_loss_not_finite", "step 1 has no finite loss")
"""Step 1 has no finite loss."""
FIRST_LOSS_NOT_RECORDED = Code("first_loss_not_recorded", "the loss of step 1 alone is not in the record")
"""The record does not start with step 1, or its first record is a mean over several steps."""
UNTRAINED_LOSS_UNKNOWN = Code("untrained_loss_unknown", "what an untrained model's loss would be is not known")
"""The loss of an untrained model cannot be computed, because the vocabulary or the initialization is unknown."""
RESUMED_FROM_CHECKPOINT = Code(
    "resumed_from_checkpoint", "it goes on from a checkpoint, so its first loss is no untrained model's"
)
"""The run resumed from a checkpoint, so its first loss is not that of an untrained model."""
MARGIN = 0.05
"""Nats; wider where the first batch has so few tokens that its own noise is wider."""


def check(subject: Subject) -> Results:
    expected, steps = subject.expected("first_loss"), subject.steps
    if subject.events_of("resumed"):
        yield CHECK.not_applicable(RESUMED_FROM_CHECKPOINT)
    elif expected is None:
        yield CHECK.unknown(UNTRAINED_LOSS_UNKNOWN)
    elif not len(steps) or steps.step[0] != 1 or steps.steps_covered[0] != 1:
        yield CHECK.unknown(FIRST_LOSS_NOT_RECORDED, None, expected)
    elif not steps.loss.finite[0]:
        yield CHECK.unknown(FIRST_LOSS_NOT_FINITE, None, expected, subject.evidence_of_step(0))
    else:
        first, margin = float(steps.loss.values[0]), max(MARGIN, 4 * _noise(subject))
        close, codes = abs(first - expected) <= margin, (FIRST_LOSS_AS_PLANNED, FIRST_LOSS_OFF)
        yield CHECK.judged(close, codes, first, expected, subject.evidence_of_step(0), margin=margin)


def _noise(subject: Subject) -> float:
    """Standard error of a first batch's loss: logits are N(0, hidden x std^2)."""
    hidden, std = subject.whole("model.hidden_size"), subject.value("training.init_method_std")
    tokens, spread = subject.steps.tokens.values[0], subject.expected("logit_std")
    if spread is None and hidden is not None and isinstance(std, float):
        spread = math.sqrt(hidden) * std
    return spread / math.sqrt(tokens) if spread is not None and tokens > 0 else 0.0
