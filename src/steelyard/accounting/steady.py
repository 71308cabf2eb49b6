"""The steady window: the steps whose times speak for the platform, warm-up and marked steps out."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce

import numpy as np

from steelyard.accounting.arrays import SIGMAS, Floats, Mask, Whole, blocks, chosen, row_of

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
        """What was kept and what was dropped, as a sentence."""
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
    dropped = {"warm-up": ~late, **{mark: late & rows for mark, rows in marks.items()}, UNTIMED: counted & ~timed}
    return SteadyWindow(
        mask=mask,
        counted=counted,
        steps=int(covered.sum(where=mask)),
        first_step=int(chosen(step - covered, mask).min()) + 1 if mask.any() else None,
        last_step=int(chosen(step, mask).max()) if mask.any() else None,
        dropped={reason: int(covered.sum(where=rows)) for reason, rows in dropped.items()},
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
    means = np.concatenate(list(_means(times, size, batches)))
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
        if len(late) and batches - late[0] >= last and _is_level(means[late[0] :]):
            return int(late[0]) * size, True
    return half * size, False


def _is_level(means: Floats) -> bool:
    first, second = (float(np.median(part)) for part in np.array_split(means, 2))
    return abs(first - second) <= _ALIKE * second


def _level(means: Floats) -> tuple[float, float]:
    """The median of batches, and how far from it one may be that is no other."""
    level = float(np.median(means))
    sigma = float(np.median(np.abs(np.diff(means)))) * SIGMAS / np.sqrt(2)
    return level, max(_ALIKE * level, _SIGMAS * sigma)


def _means(times: Floats, size: int, batches: int) -> Iterator[Floats]:
    """The mean of each batch, spikes taken down."""
    for part in blocks(batches):
        rows = slice(part.start * size, part.stop * size)
        yield _without_spikes(times, size, rows).reshape(-1, size).mean(axis=1)


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
