"""Losses that say nothing about learning: where made data cannot be learnt further, whoever trains on it."""

import math
from dataclasses import dataclass

import numpy as np

from steelyard.accounting.loss import MOCK_FLOORS
from steelyard.accounting.vocabularies import VOCABULARIES
from steelyard.records.columns import Floats
from steelyard.verdict.subject import Subject

COUNTING = MOCK_FLOORS["counting"]

_TAIL = 10
_FEWEST = 3
_NO_TEXT = 0.05
"""Nats a token below which no corpus of text has been seen: what gets there is made, masked or learnt by heart."""
_NEAR = 0.02
_LONG = 100


@dataclass(frozen=True, slots=True)
class Named:
    """Where a loss sits, and what of."""

    loss: float
    """The median of the last records."""
    floor: float | None
    words: str


def named_floor(subject: Subject) -> Named | None:
    """The floor of made data at which the loss ends, if it does."""
    loss = subject.steps.loss
    values = loss.values[loss.finite]
    if len(values) < _FEWEST:
        return None
    end = float(np.median(values[-_TAIL:]))
    source = subject.value("data.source")
    if 0 < end < _NO_TEXT:
        return _collapsed(end, source)
    return _uniform(subject, end, values, source)


def _collapsed(end: float, source: object) -> Named | None:
    if source == "tokens":
        return None
    if source == "fixed_batch":
        return Named(end, None, "MaxText's synthetic data is one batch, every step the same: it is learnt by heart")
    counting = f"Megatron's counting mock data (ln 4095 / 2048 = {COUNTING:.5f})"
    if end < 0.93 * COUNTING:
        words = f"below the floor of {counting}: its document ends are masked, or the data repeats or is degenerate"
        return Named(end, None, words)
    near = "on the floor of" if end < 1.5 * COUNTING else "close to the floor of"
    return Named(end, COUNTING, f"{near} {counting}")


def _uniform(subject: Subject, end: float, values: Floats, source: object) -> Named | None:
    if source in ("tokens", "counting", "markov", "fixed_batch") or end < 1:
        return None
    own = {size: "its own" for key in ("model.vocab_size",) if (size := subject.whole(key))}
    steps = int(subject.steps.steps_covered.sum())
    settled = len(values) >= 2 * _TAIL and abs(float(np.median(values[-2 * _TAIL : -_TAIL])) - end) < _NEAR
    if not settled or steps < _LONG or subject.value("data.source") == "tokens":
        return None
    for size, whose in {**VOCABULARIES, **own}.items():
        if abs(end - math.log(size)) < _NEAR:
            words = (
                f"at ln {size:,} = {math.log(size):.4f}, {whose} vocabulary: uniform random tokens, nothing to learn"
            )
            return Named(end, math.log(size), words)
    return None
