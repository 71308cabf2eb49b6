"""The steady window: steps without warm-up whose times represent the platform. The course of a loss."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

import numpy as np

from steelyard.accounting.arrays import SIGMAS, Floats, Mask, Whole, around_median, blocks, chosen, row_of
from steelyard.accounting.vocabularies import NEAR

MARKS = ("eval", "checkpoint", "profile", "recompile", "rampup", "artefact")
"""Marks of steps whose time contains something other than training."""

LEFT_OUT = {
    "warm-up": "Leading steps until the step times are steady, or as many as --warmup-steps gives.",
    "eval": "Steps whose time contains an evaluation.",
    "checkpoint": "Steps whose time contains the writing of a checkpoint.",
    "profile": "Steps whose time contains the profiler.",
    "recompile": "Steps whose time contains a compilation.",
    "rampup": "Steps with a smaller batch, while the batch size ramps up.",
    "artefact": "Steps whose logged time is longer than the time that passed between the timestamps of the log.",
}
"""Why steps do not count in rates, as `dropped: …` names it."""

UNTIMED = "without a time"
"""The reason for dropping an unmarked step after the warm-up."""

MIN_STEADY_STEPS = 20
"""Minimum for a comparison; a check uses whatever is recorded."""

MIN_STEADY_RECORDS = 5
"""Minimum of records for a comparison; a record may cover many steps."""

_LONGEST_S = 1e8
_BATCH = 5
_SPIKE = 1.5
_ALIKE = 0.02
_SIGMAS = 3.0
_FEWEST_LATE = 4
"""Batches for the level at the end."""
_FALL = 0.01
"""A smaller fall of step times inside the window is accepted: whole runs differ by as much."""
_FALL_SIGMAS = 2.0
"""Steady times with AR(1) noise of 0.5 to 0.9 then lose 2% of their steps at most; 3 misses twice as many warm-ups."""
_LATER_STARTS = 9
"""Places up to the middle of a run where the window may begin."""
_FEWEST_FALLING = 8
"""Records or batches, for a line through each half."""

FEWEST_LOSSES = 3
_TAIL = 10
_MANY = 2 * _TAIL
_FLAT = 0.05
"""Share of the whole fall that a plateau may still change from the third quarter of a run to the last."""


@dataclass(frozen=True, slots=True)
class SteadyWindow:
    """The records that count, and why the others are dropped."""

    mask: Mask
    counted: Mask
    """Records after the warm-up without a mark, with or without a usable step time."""
    steps: int
    """Optimizer steps in the window."""
    first_step: int | None
    last_step: int | None
    dropped: Mapping[str, int]
    """Dropped steps by reason. Steps dropped as `UNTIMED` should count."""
    settled: bool
    """False if step times never became steady; half of the records are then dropped."""
    fall: float = 0.0
    """Logarithm of the median step time in the first half of the window over that in the second half."""

    def words(self) -> str:
        kept = "no steady steps"
        if self.first_step is not None:
            kept = f"{self.steps:,} steady steps, {self.first_step:,} to {self.last_step:,}"
        left = ", ".join(f"{count:,} {reason}" for reason, count in self.dropped.items() if count)
        drift = "" if self.settled else "; step times not steady"
        return f"{kept}{f' (dropped: {left})' if left else ''}{drift}"


def steady_window(
    step: Whole, covered: Whole, step_time_s: Floats, marks: Mapping[str, Mask], asked_warmup_steps: int = 0
) -> SteadyWindow:
    """Drop the requested or the detected warm-up, whichever is longer, then marked steps."""
    timed = (step_time_s > 0) & (step_time_s < _LONGEST_S)  # false for NaN
    marks = {mark: marks[mark] for mark in MARKS if mark in marks}
    marked = reduce(np.logical_or, marks.values(), np.zeros(len(step), dtype=np.bool_))
    candidates = timed & ~marked
    detected, settled = warmup_records(chosen(step_time_s, candidates))
    late = np.ones(len(step), dtype=np.bool_)
    if len(step):  # drop a record that covers any of the requested warm-up steps
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
        fall=_fall(chosen(step_time_s, mask)),
    )


def warmup_records(times: Floats) -> tuple[int, bool]:
    """Number of leading warm-up records, and whether the times became steady.

    Records are averaged in batches of five (of one in short runs). The warm-up ends at the first two consecutive
    batches that are at most 2% or three sigma above the median of the second half, or of the third quarter if that is
    faster. Sigma comes from differences of neighbors, so a drift does not increase it. If the first half has no such
    batches, or the last quarter is faster still, the last quarter is the reference, provided that at least a quarter
    remains. Times that still fall inside the window move its start, at most to the middle of the run. Otherwise half
    is dropped as not steady. Single spikes are replaced by the median of their neighbors for this search only. Stalls
    and a slower end stay in the window: they belong to the platform.

    MSER-5 (White, Cobb, Spratt 2000) was tried: it drops up to half of a run for a drift of half a percent, and
    everything before a stall.
    """
    size = _BATCH if len(times) >= 4 * _BATCH else 1
    batches = len(times) // size
    if batches < 4:
        return 0, True
    parts = (slice(part.start * size, part.stop * size) for part in blocks(batches))
    means = np.concatenate([_without_spikes(times, size, rows).reshape(-1, size).mean(axis=1) for rows in parts])
    first, half = _first_steady(means), batches // 2
    if first is not None:
        later = np.linspace(first, max(first, half), _LATER_STARTS).astype(int)
        start = next((int(start) for start in dict.fromkeys(later) if not _falls(means[start:])), None)
        if start is not None:
            return start * size, True
    return half * size, False


def _first_steady(means: Floats) -> int | None:
    """The first batch that is as fast as the batches after it; None if at most the last quarter is."""
    batches, half = len(means), len(means) // 2
    tail, near = _level(means[half:])
    tail = min(tail, _median(means[half : half + (batches - half) // 2]))
    fast = means - tail <= near
    steady = np.flatnonzero(fast[:half] & fast[1 : half + 1])
    last = max(batches // 4, _FEWEST_LATE)
    end, near_end = _level(means[-last:])
    still_faster = batches > last and end < min(tail, _median(means[:-last])) - max(near, near_end)
    if len(steady) and not still_faster:
        return int(steady[0])
    fast = means - end <= near_end
    late = np.flatnonzero(fast[:-1] & fast[1:])
    if len(late) and batches - late[0] >= last:
        first, second = (_median(part) for part in np.array_split(means[late[0] :], 2))
        if abs(first - second) <= _ALIKE * second:
            return int(late[0])
    return None


def _falls(means: Floats) -> bool:
    """Whether the first half is slower than the second, by two standard errors and by more than is accepted.

    The error is that of means of AR(1) noise around a line through each half. The sample's correlation r is too small
    by about (2 + 4 r) / n where a line is fitted (Marriott and Pope, Biometrika 41, 1954), which is added back.
    """
    if len(means) < _FEWEST_FALLING:
        return False
    halves = means[: len(means) // 2], means[len(means) // 2 :]
    levels = [float(half.mean()) for half in halves]
    if levels[0] - levels[1] <= _FALL * levels[1]:
        return False
    around = [half - np.polyval(np.polyfit(at := np.arange(len(half)), half, 1), at) for half in halves]
    squares = sum(float((part**2).sum()) for part in around)
    shortest = len(halves[0])
    r = sum(float((part[1:] * part[:-1]).sum()) for part in around) / squares if squares else 0.0
    r = min(max(r + (2 + 4 * r) / shortest, 0.0), 1 - 1 / shortest)
    variance = squares / (len(means) - 4) * (1 + r) / (1 - r)
    return levels[0] - levels[1] > _FALL_SIGMAS * math.sqrt(variance * sum(1 / len(half) for half in halves))


def _fall(times: Floats) -> float:
    """How far the times fall from the first half to the second, as a logarithm."""
    first, second = np.array_split(times, 2)
    return math.log(_median(first) / _median(second)) if len(times) >= _FEWEST_FALLING else 0.0


def _median(values: Floats) -> float:
    """Of finite values; a fifth of the time of NumPy's for the few batches of a run."""
    ordered, middle = np.sort(values), len(values) // 2
    return float(ordered[middle] if len(values) % 2 else (ordered[middle - 1] + ordered[middle]) / 2)


def _level(means: Floats) -> tuple[float, float]:
    """The median of batches, and the distance within which a batch counts as equal to it."""
    level = _median(means)
    sigma = _median(np.abs(np.diff(means))) * SIGMAS / np.sqrt(2)
    return level, max(_ALIKE * level, _SIGMAS * sigma)


def _without_spikes(times: Floats, first: int, rows: slice) -> Floats:
    """Rows with spikes replaced by the median of their neighbors; the first batch stays unchanged."""
    if len(times) <= first + _BATCH:
        return times[rows]
    around = _BATCH // 2
    begin, end = max(rows.start - around, 0), min(rows.stop + around, len(times))
    missing = around - (rows.start - begin), around - (end - rows.stop)
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(times[begin:end], missing, mode="edge"), _BATCH)
    usual = np.sort(windows, axis=1)[:, around]
    cleaned = np.where(times[rows] > _SPIKE * usual, usual, times[rows])
    kept = max(first - rows.start, 0)
    cleaned[:kept] = times[rows][:kept]
    return cleaned


@dataclass(frozen=True, slots=True)
class Course:
    """The course of a loss from the first record to the last."""

    first: float
    end: float
    """The median of the last ten records; of a short run the last."""
    mean: float
    """Over the last quarter: near the loss floor most batches are below the mean."""
    still_falls: bool
    level: float
    """The median over the last quarter of the steps."""
    settled: bool


def course(step: Whole, loss: Floats) -> Course:
    """The course of these losses at these steps."""
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
        # The error of a median is 1.25 times that of a mean.
        chance = 3 * 1.25 * scatter * math.sqrt(1 / len(third) + 1 / len(last))
        moved = abs(float(np.median(third)) - level)
        settled = moved <= max(_FLAT * (float(loss[0]) - level), chance if len(loss) >= _MANY else 0.0, NEAR)
    return Course(float(loss[0]), end, mean, before - end > 0.01 * before, level, settled)
