"""Finds the step of each record of a log that contains epochs and progress bars, but no step numbers.

The Trainer logs every `logging_steps` steps, and step 1 too if asked, so one number, the interval, gives all steps. It
follows from the bars next to the records, or from the epochs if the number of steps per epoch is known.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

_FEWEST_BARS = 3
"""Records next to bars at one distance that show the interval."""
_CLEAR = 0.2
"""Error of an epoch as a share of an interval, up to which the epoch alone gives the step."""
_USUAL = tuple(base * 10**power for power in range(4) for base in (1, 2, 5, 25))
_LESS_USUAL = (*(base * 10**power for power in range(4) for base in (3, 4, 15)), *(2**power for power in range(3, 11)))
"""Intervals that people choose."""


@dataclass(slots=True)
class Record:
    """What a record contains about its step."""

    epoch: float | None = None
    error: float = 0.0
    """Rounding of the epoch."""
    bar_before: int | None = None
    """Steps in the last bar before the record."""
    bar_after: int | None = None
    """Steps in the bar directly after the record, mostly drawn again because the record was printed."""


@dataclass(frozen=True, slots=True)
class Range:
    """An uncertain number."""

    low: float
    high: float

    def over(self, other: "Range") -> "Range":
        return Range(self.low / other.high, self.high / other.low)

    def times(self, other: "Range") -> "Range":
        return Range(self.low * other.low, self.high * other.high)


@dataclass(slots=True)
class Known:
    """What a log contains about the steps of a training."""

    total: int | None = None
    interval: int | None = None
    """logging_steps of the arguments."""
    examples: int | None = None
    batch: int | None = None
    epochs: int | None = None
    by_steps: bool = False
    """Whether the number of steps was given, so that it is not a multiple of an epoch's."""
    resumed: int = 0
    """The step of the loaded checkpoint."""
    last_epoch: Record | None = None
    """The epoch in the summary at the end."""
    reached: int | None = None
    """The last step in a bar of the training."""
    steps_by_rate: Range | None = None
    """Steps in total by the summary: run time x steps per second."""

    def per_epoch(self) -> Range | None:
        """Steps per epoch."""
        if self.examples and self.batch:
            whole = self.examples / self.batch  # the last batch may be dropped, or filled up
            return Range(max(whole - 1, 0.5), whole + 1)
        if self.total and self.epochs and not self.by_steps:
            return Range(max(self.total / self.epochs - 1, 0.5), self.total / self.epochs)
        total = Range(self.total, self.total) if self.total else self.steps_by_rate
        last = self.last_epoch
        if total is not None and last is not None and last.epoch is not None and last.epoch > last.error:
            return total.over(Range(last.epoch - last.error, last.epoch + last.error))
        return None


@dataclass(frozen=True, slots=True)
class Numbering:
    """The steps of the records."""

    numbers: Sequence[int]
    interval: int
    exact: bool = True
    """Whether only this interval fits."""


def by_bars(records: Sequence[Record]) -> Numbering | None:
    """The steps in the bars next to the records, if they are equally far apart.

    A bar is drawn again after each record. W&B's output.log keeps only the last state of each line, so that the bar
    after a record is that of the next one; the epochs show this.
    """
    after, before = ([getattr(record, name) for record in records] for name in ("bar_after", "bar_before"))
    slope = _slope([(record.epoch, record.error) for record in records if record.epoch is not None])
    first = records[0]
    for bars in (after, before):
        numbering = _equally_apart(bars)
        if numbering is None:
            continue
        if slope is not None and first.epoch is not None and slope.high - slope.low <= _CLEAR * slope.high:
            index = first.epoch / ((slope.low + slope.high) / 2)  # of the first record, in intervals
            fits = abs(index - numbering.numbers[0] / numbering.interval) < 0.5
        else:
            fits = bars is after and (first.bar_before or 0) in (0, first.bar_after)
        if fits:
            return numbering
    return None


def _equally_apart(bars: Sequence[int | None]) -> Numbering | None:
    """Steps if all are known; step 1 may be logged too, so the first distance may be shorter."""
    known = [bar for bar in bars if bar is not None]
    if len(known) < len(bars) or len(known) < _FEWEST_BARS or known[0] < 1:
        return None
    apart = [after - before for before, after in pairwise(known)]
    interval = max(set(apart), key=apart.count)
    if interval < 1 or any(distance != interval for distance in apart[1:]) or apart[0] > interval:
        return None
    return Numbering(known, interval)


def by_epochs(records: Sequence[Record], known: Known) -> Numbering | None:
    """The steps that the epochs give; None if the steps per epoch are unknown."""
    epochs = [(record.epoch, record.error) for record in records if record.epoch is not None]
    per_epoch = known.per_epoch()
    if len(epochs) < len(records) or not epochs:
        return None
    slope = _slope(epochs)
    if known.interval:
        interval, exact = known.interval, True
    elif per_epoch is not None and slope is not None:
        interval, exact = _nearest(slope.times(per_epoch))
    elif per_epoch is not None:
        middle = (per_epoch.low + per_epoch.high) / 2
        return Numbering([max(1, round(epoch * middle)) for epoch, _ in epochs], 1, exact=False)
    else:
        return None
    return Numbering(_numbers(epochs, slope, interval, known, per_epoch), interval, exact)


def by_count(records: Sequence[Record], known: Known, ended: bool) -> Numbering:
    """Steps by counting the records, with the interval from the number of steps if the training ended."""
    if known.interval:
        start = known.resumed // known.interval
        return Numbering([known.interval * (start + at) for at in range(1, len(records) + 1)], known.interval)
    reached = known.total if ended else known.reached
    if not reached or reached < len(records):
        return Numbering(range(1, len(records) + 1), 1, exact=False)
    interval, exact = _nearest(Range(reached / (len(records) + 1) + 1e-6, reached / len(records)))
    return Numbering([interval * at for at in range(1, len(records) + 1)], interval, exact)


def _slope(epochs: Sequence[tuple[float, float]]) -> Range | None:
    """Epochs per record; without the first record, which may be of step 1."""
    used = epochs[1:] if len(epochs) > 2 else epochs
    if len(used) < 2:
        return None
    (first, error), (last, other) = used[0], used[-1]
    low, high = (last - first - error - other) / (len(used) - 1), (last - first + error + other) / (len(used) - 1)
    return Range(max(low, 0.0), high) if high > 0 else None


def _nearest(interval: Range) -> tuple[int, bool]:
    """The interval within a range: the only whole number, else the only usual one, else the middle."""
    low, high = math.ceil(interval.low - 1e-9), math.floor(interval.high + 1e-9)
    middle = max(1, round((interval.low + interval.high) / 2))
    if high <= max(low, 1):
        return (max(1, low), True) if low == high or high == 1 else (middle, False)
    usual, others = ([number for number in numbers if low <= number <= high] for numbers in (_USUAL, _LESS_USUAL))
    if not usual and not others:
        return middle, False
    return min(usual or others, key=lambda number: abs(number - middle)), len(usual) + len(others) == 1


def _numbers(
    epochs: Sequence[tuple[float, float]], slope: Range | None, interval: int, known: Known, per_epoch: Range | None
) -> list[int]:
    """Multiples of the interval, and perhaps step 1 before them."""
    apart = 0.0 if slope is None else (slope.low + slope.high) / 2
    if per_epoch is not None and slope is not None:  # both contain the true value
        apart = min(max(apart, interval / per_epoch.high), interval / per_epoch.low)
    error = max(error for _, error in epochs)
    if apart and error / apart <= _CLEAR:
        numbers = [max(1, interval * round(epoch / apart)) for epoch, _ in epochs]
        if all(before < after for before, after in pairwise(numbers)):
            return numbers
    start = known.resumed // interval
    if apart and not start and error <= _CLEAR * epochs[-1][0]:
        start = max(0, round(epochs[-1][0] / apart) - len(epochs))
        start = start if start > 1 else 0  # one record more or less is the rounding of the epochs
    first_logged = interval > 1 and bool(apart) and len(epochs) > 1 and epochs[1][0] - epochs[0][0] < 0.95 * apart
    numbers = [interval * (start + at) for at in range(1, len(epochs) + 1)]
    if first_logged and not start and epochs[0][0] + error < 0.75 * apart:
        return [1, *numbers[:-1]]
    return numbers
