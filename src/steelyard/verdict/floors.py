"""Losses at the floor of generated data, which show nothing about learning."""

import math
from enum import StrEnum

import numpy as np

from steelyard.accounting.arrays import around_median, blocks, chosen
from steelyard.accounting.vocabularies import (
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
from steelyard.frameworks.registry import facts, mock_floor
from steelyard.verdict.subject import Subject

COUNTING = mock_floor(MockData.COUNTING)
NO_TEXT = 0.05
"""Nats per token. No text corpus reaches this: a lower loss means generated, masked or memorized data."""

_BELOW, ON = 0.93, 1.5
"""Factors of the counting floor: the scatter of its batches."""
_WELL_BELOW = 0.5
"""Factor of the counting floor: no quarter of a run on counting data has a lower mean."""
_LONG = 50
_FALL = 0.05
"""Nats: after a smaller fall the model may be untrained, which is nearly uniform too."""
_LEARNED = 0.25
"""Share of the first loss: after a larger fall the model has learned something."""
_STRETCH = 5
"""Consecutive low steps that are not the noise of a single step."""
_SURE = 5.0
"""Standard errors of the median of such a stretch."""


class Collapse(StrEnum):
    """Cause of a loss that is lower than any text allows."""

    COUNTING = "counting"
    BELOW_COUNTING = "below_counting"
    FIXED_BATCH = "fixed_batch"
    BY_HEART = "by_heart"


def uniform_vocabularies(subject: Subject) -> list[Vocabulary]:
    """Vocabularies whose uniform loss equals the final level of the loss, nearest first.

    Uniform tokens cannot be learned: a run that was below this level before had learned something, and does not
    count. If the data or the vocabulary is declared, any other vocabulary must explain the first loss too.
    """
    course, source = subject.course, subject.value("data.source")
    if course is None or source not in (None, "uniform") or not course.settled or course.level < 1:
        return []
    step, level = subject.steps.step, course.level
    short, learned = step[-1] - step[0] < _LONG - 1, level < (1 - _LEARNED) * course.first
    untrained = source is None and _from_the_start(subject) and course.first - level < _FALL
    if short or learned or untrained or _was_below(subject, level):
        return []
    own = subject.whole("model.vocab_size")

    def distance(vocabulary: Vocabulary) -> tuple[bool, float, bool]:
        return vocabulary.size != own, abs(level - vocabulary.uniform), vocabulary.padded != vocabulary.size

    possible = _possible(subject, course.first)
    nearest = sorted(
        (vocabulary for vocabulary in possible if vocabulary.floor - NEAR < level < vocabulary.uniform + NEAR),
        key=distance,
    )
    if not nearest or nearest[0].size == own:
        return nearest[:1]
    # Unless it is declared, the nearest vocabulary may be indistinguishable from others by the loss alone.
    others = (vocabulary for vocabulary in nearest[1:] if vocabulary.size not in (nearest[0].size, own))
    return [nearest[0], *(vocabulary for vocabulary in others if abs(level - vocabulary.uniform) < NEAR)]


def uniform_vocabulary(subject: Subject) -> Vocabulary | None:
    """The nearest vocabulary whose uniform loss the run has reached."""
    return next(iter(uniform_vocabularies(subject)), None)


def _was_below(subject: Subject, level: float) -> bool:
    """Whether some stretch of steps is clearly below the final level of the loss."""
    rows = subject.learning_rows
    loss, covered = chosen(subject.steps.loss.values, rows), chosen(subject.steps.steps_covered, rows)
    width = min(len(loss), math.ceil(_STRETCH / max(1.0, float(np.median(covered)))))
    stretches = np.lib.stride_tricks.sliding_window_view(loss, width)
    lowest = min(np.median(stretches[part], axis=-1).min() for part in blocks(len(stretches)))
    scatter = float(around_median(loss[-max(1, len(loss) // 4) :])[1])
    error = 1.25 * scatter / math.sqrt(width)  # a median's is 1.25 of a mean's
    return bool(lowest < level - max(_FALL, _SURE * error))


def share_of_uniform(subject: Subject, first: float, low: float, high: float) -> float:
    """Share of an interval of loss levels that some vocabulary would explain, given the first loss."""
    places = ((vocabulary.floor - NEAR, vocabulary.uniform + NEAR) for vocabulary in _possible(subject, first))
    return share_within(places, low, high)


def _possible(subject: Subject, first: float) -> list[Vocabulary]:
    """Possible vocabularies: all; if something is declared, its own and those that explain the first loss."""
    declared = declared_of(subject)
    own = (declared.vocab_size,) if declared.vocab_size else ()
    every = candidates(dict.fromkeys((*own, *VOCABULARIES)), declared.habits, declared.tensor)
    if not own and not declares_data(subject):
        return list(every)
    return [
        vocabulary for vocabulary in every if vocabulary.size in own or fitting(starts_of(declared, vocabulary), first)
    ]


def collapse(subject: Subject) -> Collapse | None:
    """Cause of a loss below that of any text; None if the loss is higher, or the data is a corpus."""
    course, source = subject.course, subject.value("data.source")
    if course is None or not 0 < course.mean < NO_TEXT or source == "tokens":
        return None
    may_be_mock = source is None and not declares_data(subject)
    mock = facts(subject.run.manifest.framework).mock_data if may_be_mock else None
    if mock == MockData.FIXED_BATCH or is_one_batch(subject):
        return Collapse.FIXED_BATCH
    if source != "counting" and mock != MockData.COUNTING:
        return Collapse.BY_HEART
    if course.mean < _BELOW * COUNTING:
        return Collapse.BELOW_COUNTING
    untrained = course.first > math.log(subject.whole("model.vocab_size") or min(VOCABULARIES)) - NEAR
    rests = course.mean < ON * COUNTING and (untrained or not _from_the_start(subject))
    loss = chosen(subject.steps.loss.values, subject.learning_rows)  # counting batches scatter: use whole quarters
    lowest_quarter = min(float(part.mean()) for part in np.array_split(loss, 4) if len(part))
    learned_more = lowest_quarter < _WELL_BELOW * COUNTING
    counts = source == "counting" or (not learned_more and (rests or (course.still_falls and untrained)))
    return Collapse.COUNTING if counts else Collapse.BY_HEART


def is_one_batch(subject: Subject) -> bool:
    """Whether all steps are known to train on the same batch."""
    return subject.value("data.source") == MockData.FIXED_BATCH or repeats_a_batch(subject)


def repeats_a_batch(subject: Subject) -> bool:
    """Whether the data has no more sequences than one step uses, so that all steps train on the same batch."""
    samples, batch = subject.whole("data.samples"), subject.whole("training.global_batch_size")
    return samples is not None and batch is not None and samples <= batch


def _from_the_start(subject: Subject) -> bool:
    return bool(subject.steps.step[0] == 1 and subject.steps.steps_covered[0] == 1)


def declares_data(subject: Subject) -> bool:
    """Whether the training data is declared."""
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
