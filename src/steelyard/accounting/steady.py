"""Where a run comes to rest: the steps whose times speak for the platform, without warm-up, and how a loss goes."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

import numpy as np

from steelyard.accounting.arrays import SIGMAS, Floats, Mask, Whole, around_median, blocks, chosen, row_of
from steelyard.accounting.vocabularies import NEAR

MARKS = ("eval", "checkpoint", "profile", "recompile", "rampup", "artefact")
"""What a step may be marked with that its time then speaks of, and not of training."""

UNTIMED = "without a time"
"""Why a step after the warm-up is dropped that is not marked."""

MIN_STEADY_STEPS = 20
"""A comparison asks for so many; a check judges what there is."""

MIN_STEADY_RECORDS = 5
"""And so many records of them, each of which may cover many steps."""

_LONGEST_S = 1e8
_BATCH = 5
_SPIKE = 1.5
_ALIKE = 0.02
_SIGMAS = 3.0
_FEWEST_LATE = 4
"""Batches, of which a level at the end is made."""

FEWEST_LOSSES = 3
_TAIL = 10
_MANY = 2 * _TAIL
_FLAT = 0.05
"""Of the whole fall: what a plateau may still move from the third quarter of a run to the last."""


@dataclass(frozen=True, slots=True)
class SteadyWindow:
    """Which records count, and what became of the others."""

    mask: Mask
    counted: Mask
    """Those that should count: after the warm-up and not marked, with a usable time or without."""
    steps: int
    """Optimizer steps in it."""
    first_step: int | None
    last_step: int | None
    dropped: Mapping[str, int]
    """Steps left out, by reason; those `UNTIMED` should count."""
    settled: bool
    """False where the times did not come to rest, so that half of them was dropped."""

    def words(self) -> str:
        kept = "no steady steps"
        if self.first_step is not None:
            kept = f"{self.steps:,} steady steps, {self.first_step:,} to {self.last_step:,}"
        left = ", ".join(f"{count:,} {reason}" for reason, count in self.dropped.items() if count)
        drift = "" if self.settled else "; step times had not settled"
        return f"{kept}{f' (dropped: {left})' if left else ''}{drift}"


def steady_window(
    step: Whole, covered: Whole, step_time_s: Floats, marks: Mapping[str, Mask], asked_warmup_steps: int = 0
) -> SteadyWindow:
    """Drop the larger of the asked and the detected warm-up, then the marked steps."""
    timed = (step_time_s > 0) & (step_time_s < _LONGEST_S)  # not so for NaN
    marks = {mark: marks[mark] for mark in MARKS if mark in marks}
    marked = reduce(np.logical_or, marks.values(), np.zeros(len(step), dtype=np.bool_))
    candidates = timed & ~marked
    detected, settled = warmup_records(chosen(step_time_s, candidates))
    late = np.ones(len(step), dtype=np.bool_)
    if len(step):  # a record that covers any of the asked steps is left out
        late = step - covered >= asked_warmup_steps + (step[0] - covered[0])
    if candidates.any():
        late[: row_of(candidates, detected)] = False
    counted = late & ~marked
    mask = counted & timed

    def count(rows: Mask) -> int:
        return int(covered.sum(where=rows))

    by_mark = {mark: count(late & rows) for mark, rows in marks.items()}
    return SteadyWindow(
        mask=mask,
        counted=counted,
        steps=count(mask),
        first_step=int(chosen(step - covered, mask).min()) + 1 if mask.any() else None,
        last_step=int(chosen(step, mask).max()) if mask.any() else None,
        dropped={"warm-up": count(~late), **by_mark, UNTIMED: count(counted & ~timed)},
        settled=settled,
    )


def warmup_records(times: Floats) -> tuple[int, bool]:
    """How many leading records are warm-up, and whether the times settled.

    In batches of five records (in short runs of one) it is the leading batches until two in a row are within 2 %, or
    three sigma, of the median of the second half; sigma comes from neighbouring batches, so that a drift does not
    widen it. Where no two of the first half are, or the last quarter is faster still, the warm-up may be longer: the
    last quarter is then what they are held to, if what is left is at least that. Else half is dropped and the times
    have not settled. A lone spike after the first batch is taken down to its neighbours' median while we look, and a
    stall amid steady steps ends no warm-up, nor does a slower end: they stay in, being the platform's.

    MSER-5 (White, Cobb, Spratt 2000) was tried and drops up to half of a run for a drift of half a percent, and all
    that came before a stall.
    """
    size = _BATCH if len(times) >= 4 * _BATCH else 1
    batches = len(times) // size
    if batches < 4:
        return 0, True
    parts = (slice(part.start * size, part.stop * size) for part in blocks(batches))
    means = np.concatenate([_without_spikes(times, size, rows).reshape(-1, size).mean(axis=1) for rows in parts])
    half = batches // 2
    tail, near = _level(means[half:])
    alike = np.abs(means - tail) <= near
    settled = np.flatnonzero(alike[:half] & alike[1 : half + 1])
    last = max(batches // 4, _FEWEST_LATE)
    end, near_end = _level(means[-last:])
    still_faster = batches > last and end < min(tail, float(np.median(means[:-last]))) - max(near, near_end)
    if len(settled) and not still_faster:
        return int(settled[0]) * size, True
    if end < float(np.median(means[:half])):  # what ends slower than it began has no warm-up that long
        alike = np.abs(means - end) <= near_end
        late = np.flatnonzero(alike[:-1] & alike[1:])
        if len(late) and batches - late[0] >= last:
            first, second = (float(np.median(part)) for part in np.array_split(means[late[0] :], 2))
            if abs(first - second) <= _ALIKE * second:
                return int(late[0]) * size, True
    return half * size, False


def _level(means: Floats) -> tuple[float, float]:
    """The median of batches, and how far from it one may be that is no other."""
    level = float(np.median(means))
    sigma = float(np.median(np.abs(np.diff(means)))) * SIGMAS / np.sqrt(2)
    return level, max(_ALIKE * level, _SIGMAS * sigma)


def _without_spikes(times: Floats, first: int, rows: slice) -> Floats:
    """Some rows, with what is a spike among its neighbours taken down to their median; the first batch as it is."""
    if len(times) <= first + _BATCH:
        return times[rows]
    around = _BATCH // 2
    begin, end = max(rows.start - around, 0), min(rows.stop + around, len(times))
    missing = around - (rows.start - begin), around - (end - rows.stop)
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(times[begin:end], missing, mode="edge"), _BATCH)
    usual = np.median(windows, axis=1)
    cleaned = np.where(times[rows] > _SPIKE * usual, usual, times[rows])
    kept = max(first - rows.start, 0)
    cleaned[:kept] = times[rows][:kept]
    return cleaned


@dataclass(frozen=True, slots=True)
class Course:
    """How a loss goes from its first record to its last."""

    first: float
    end: float
    """The median of the last ten records, or the last of a few."""
    mean: float
    """Over the last quarter: where little is left to learn, most batches have less of it than the mean."""
    still_falls: bool
    level: float
    """The median over the last quarter of the steps."""
    settled: bool


def course(step: Whole, loss: Floats) -> Course:
    """How some losses go, told at some steps."""
    tail = 1 if len(loss) < _MANY else _TAIL
    end, before = float(np.median(loss[-tail:])), float(np.median(loss[-2 * tail : -tail]))
    mean = float(loss[-max(1, len(loss) // 4) :].mean()) if len(loss) >= _MANY else float(loss[-1])
    half, late, final = (step[0] + share * (step[-1] - step[0]) for share in (0.5, 0.75, 1.0))
    third, last = loss[(step >= half) & (step < late)], loss[(step >= late) & (step < final)]
    last = np.append(last, loss[-1:])
    level = float(np.median(last))
    settled = False
    if len(third):
        scatter = max(float(around_median(part)[1]) for part in (third, last))
        chance = 3 * 1.25 * scatter * math.sqrt(1 / len(third) + 1 / len(last))  # a median's error is 1.25 of a mean's
        moved = abs(float(np.median(third)) - level)
        settled = moved <= max(_FLAT * (float(loss[0]) - level), chance if len(loss) >= _MANY else 0.0, NEAR)
    return Course(float(loss[0]), end, mean, before - end > 0.01 * before, level, settled)
