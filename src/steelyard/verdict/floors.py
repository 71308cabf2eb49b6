"""Losses that say nothing about learning: where made data cannot be learnt further, whoever trains on it."""

import math
from enum import StrEnum

import numpy as np

from steelyard.accounting.arrays import around_median, blocks, chosen
from steelyard.accounting.vocabularies import (
    MOCK_FLOORS,
    NEAR,
    VOCABULARIES,
    Declared,
    Vocabulary,
    candidates,
    fitting,
    share_within,
    starts_of,
)
from steelyard.frameworks.facts import MockData
from steelyard.frameworks.registry import facts
from steelyard.verdict.subject import Subject

COUNTING = MOCK_FLOORS["counting"]
NO_TEXT = 0.05
"""Nats a token below which no corpus of text has been seen: what gets there is made, masked or learnt by heart."""

_BELOW, ON = 0.93, 1.5
"""Of the counting floor: its batches scatter so far."""
_WELL_BELOW = 0.5
"""Of the counting floor: no quarter of a run that counts has this mean."""
_LONG = 50
_FALL = 0.05
"""Nats: a model that fell less may be an untrained one, which is nearly uniform too."""
_LEARNT = 0.25
"""Of the first loss: a model that fell further has learnt something."""
_STRETCH = 5
"""Steps that lie low together are no noise of one."""
_SURE = 5.0
"""Standard errors of such a stretch."""


class Collapse(StrEnum):
    """What a loss that no text is learnt to comes of."""

    COUNTING = "counting"
    BELOW_COUNTING = "below_counting"
    FIXED_BATCH = "fixed_batch"
    BY_HEART = "by_heart"


def uniform_vocabularies(subject: Subject) -> list[Vocabulary]:
    """Those whose uniform model the loss has come to rest at, without ever having been below it, the nearest first.

    Uniform tokens cannot be learnt: what was lower before had learnt something, and lost it. Where something is
    declared of the data or the vocabulary, another vocabulary must give the first loss too.
    """
    course, source = subject.course, subject.value("data.source")
    if course is None or source not in (None, "uniform") or not course.settled or course.level < 1:
        return []
    step, level = subject.steps.step, course.level
    short, learnt = step[-1] - step[0] < _LONG - 1, level < (1 - _LEARNT) * course.first
    untrained = source is None and _from_the_start(subject) and course.first - level < _FALL
    if short or learnt or untrained or _was_below(subject, level):
        return []
    own = subject.whole("model.vocab_size")

    def far(each: Vocabulary) -> tuple[bool, float, bool]:
        return each.size != own, abs(level - each.uniform), each.padded != each.size

    possible = _possible(subject, course.first)
    near = sorted((each for each in possible if each.floor - NEAR < level < each.uniform + NEAR), key=far)
    if not near or near[0].size == own:
        return near[:1]
    # The loss may not tell another vocabulary apart from the nearest, if that one is not declared.
    others = (each for each in near[1:] if each.size not in (near[0].size, own))
    return [near[0], *(each for each in others if abs(level - each.uniform) < NEAR)]


def uniform_vocabulary(subject: Subject) -> Vocabulary | None:
    """The nearest of these."""
    return next(iter(uniform_vocabularies(subject)), None)


def _was_below(subject: Subject, level: float) -> bool:
    """Whether some stretch of steps lies well below where the loss has come to rest."""
    rows = subject.learning_rows
    loss, covered = chosen(subject.steps.loss.values, rows), chosen(subject.steps.steps_covered, rows)
    width = min(len(loss), math.ceil(_STRETCH / max(1.0, float(np.median(covered)))))
    stretches = np.lib.stride_tricks.sliding_window_view(loss, width)
    lowest = min(np.median(stretches[part], axis=-1).min() for part in blocks(len(stretches)))
    scatter = float(around_median(loss[-max(1, len(loss) // 4) :])[1])
    error = 1.25 * scatter / math.sqrt(width)  # a median's is 1.25 of a mean's
    return bool(lowest < level - max(_FALL, _SURE * error))


def share_of_uniform(subject: Subject, first: float, low: float, high: float) -> float:
    """How many of the plateaus in a stretch would be named for some vocabulary, after such a first loss."""
    places = ((each.floor - NEAR, each.uniform + NEAR) for each in _possible(subject, first))
    return share_within(places, low, high)


def _possible(subject: Subject, first: float) -> list[Vocabulary]:
    """Vocabularies it may have: every one, or where something is declared its own and those of its first loss."""
    declared = declared_of(subject)
    own = (declared.vocab_size,) if declared.vocab_size else ()
    every = candidates(dict.fromkeys((*own, *VOCABULARIES)), declared.habits, declared.tensor)
    if not own and not declares_data(subject):
        return list(every)
    return [each for each in every if each.size in own or fitting(starts_of(declared, each), first)]


def collapse(subject: Subject) -> Collapse | None:
    """What a loss below that of any text comes of; None where it is not so low, or is a corpus's own matter."""
    course, source = subject.course, subject.value("data.source")
    if course is None or not 0 < course.mean < NO_TEXT or source == "tokens":
        return None
    may_be_mock = source is None and not declares_data(subject)
    mock = facts(subject.run.manifest.framework).mock_data if may_be_mock else None
    if source == "fixed_batch" or mock == MockData.FIXED_BATCH or repeats_a_batch(subject):
        return Collapse.FIXED_BATCH
    if source != "counting" and mock != MockData.COUNTING:
        return Collapse.BY_HEART
    if course.mean < _BELOW * COUNTING:
        return Collapse.BELOW_COUNTING
    untrained = course.first > math.log(subject.whole("model.vocab_size") or min(VOCABULARIES)) - NEAR
    rests = course.mean < ON * COUNTING and (untrained or not _from_the_start(subject))
    loss = chosen(subject.steps.loss.values, subject.learning_rows)  # batches that count scatter too far for fewer
    lowest_quarter = min(float(part.mean()) for part in np.array_split(loss, 4) if len(part))
    learnt_more = lowest_quarter < _WELL_BELOW * COUNTING
    counts = source == "counting" or (not learnt_more and (rests or (course.still_falls and untrained)))
    return Collapse.COUNTING if counts else Collapse.BY_HEART


def repeats_a_batch(subject: Subject) -> bool:
    """Whether it is declared to have no more sequences than a step takes."""
    samples, batch = subject.whole("data.samples"), subject.whole("training.global_batch_size")
    return samples is not None and batch is not None and samples <= batch


def _from_the_start(subject: Subject) -> bool:
    return bool(subject.steps.step[0] == 1 and subject.steps.steps_covered[0] == 1)


def declares_data(subject: Subject) -> bool:
    """Whether somebody said what it is trained on."""
    return any(subject.value(f"data.{key}") is not None for key in ("path", "dataset", "tokenizer"))


def declared_of(subject: Subject) -> Declared:
    std = subject.value("training.init_method_std")
    return Declared(
        facts(subject.run.manifest.framework),
        subject.whole("model.vocab_size"),
        subject.whole("model.hidden_size"),
        subject.whole("parallelism.tensor_parallel_size"),
        float(std) if isinstance(std, int | float) and not isinstance(std, bool) and 0 < std <= 10 else None,
    )
