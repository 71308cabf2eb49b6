"""Different learning rate schedules: one step apart, a constant factor, or otherwise."""

from collections.abc import Iterator
from enum import Enum
from typing import Any

import numpy as np

from steelyard.comparison.curve import common_steps
from steelyard.comparison.diagnoses import Cause, Diagnosis
from steelyard.comparison.tiers import Pair
from steelyard.records.columns import Floats, Mask, Whole

_SAME = 1e-3
_OF_PEAK = 1e-4
"""Share of the peak; rates near 0 have few digits."""
_FEWEST = 5
_RISING = 0.98
_STRAIGHT = 0.05
"""Share of a warm-up's slope by which its rates may be off a line."""
_ENDS = 4
"""Number of rates next to the first or last rate that it is compared with."""
_LATER = "learning rates of {late} follow those of {early} one step later"
_AHEAD = (
    "the learning rate warm-up of {early} is one step ahead of {late}: it starts at warm-up step {first} instead of "
    "{other}"
)
_WARM_UP = "some frameworks warm up by (step + 1) / (warm-up + 1), others from 0: shift one warm-up by a step"
_SCHEDULE = "set the same learning rate, minimum, warm-up and decay on both sides"


class Pattern(Enum):
    """How two schedules differ, and the remedy."""

    SHIFTED = _LATER, "start both schedules at the same step"
    SHIFTED_WARM_UP = f"{_LATER}, from the warm-up on", _WARM_UP
    WARM_UP = _AHEAD, _WARM_UP
    WARM_UP_AND_DECAY = (
        f"{_AHEAD}, and the schedules differ again from step {{parted:,}}",
        f"{_WARM_UP}; and set the same minimum and decay on both sides",
    )
    FACTOR = "the learning rate of {called[0]} is {ratio:.4g} times that of {called[1]} at every step", _SCHEDULE
    OTHER = "learning rates of {called[0]} and {called[1]} differ from step {step:,}", _SCHEDULE


Match = tuple[Pattern, dict[str, Any]]
"""A pattern and the values of its sentence."""


def _evidence(called: tuple[str, str], step: int, target: float, baseline: float, **_: Any) -> Iterator[str]:
    yield f"learning rate at step {step:,}: {target:.6g} on {called[0]}, {baseline:.6g} on {called[1]}"


CODE = Cause(
    "learning_rate",
    lambda pattern, **values: str(pattern.value[0].format(**values)),
    evidence=_evidence,
    confirm=lambda pattern, **_: str(pattern.value[1]),
)
"""The learning rates of the two sides differ."""


def diagnose(pair: Pair) -> Iterator[Diagnosis]:
    step, target, baseline = _common_rates(pair)
    differ = ~_alike(target, baseline)
    if len(step) < _FEWEST or not differ.any():
        return
    row = int(np.argmax(differ))
    first = {"step": int(step[row]), "target": float(target[row]), "baseline": float(baseline[row])}
    called = pair.called
    shifted = _shifted(called, step, target, baseline) or _warm_up(called, step, target, baseline)
    pattern, values = shifted or _factor(target, baseline) or (Pattern.OTHER, {})
    yield Diagnosis(CODE, "both", {"called": called, "pattern": pattern, **first, **values})


def _factor(target: Floats, baseline: Floats) -> Match | None:
    given = (target > 0) & (baseline > 0)
    ratio = target[given] / baseline[given]
    if not len(ratio) or ((target > 0) != (baseline > 0)).any() or np.ptp(ratio) > 2 * _SAME * ratio.mean():
        return None
    return Pattern.FACTOR, {"ratio": float(ratio.mean())}


def _shifted(called: tuple[str, str], step: Whole, target: Floats, baseline: Floats) -> Match | None:
    """One schedule a step after the other; constant rates would fit any shift."""
    inside = ~_alike(target, baseline)[1:-1]
    if not (np.diff(step) == 1).all() or not inside.any():
        return None
    orders = ((called[0], called[1], target, baseline), (called[1], called[0], baseline, target))
    for early, late, first, second in orders:
        ends = _continues(second[:_ENDS]) and _continues(first[: -_ENDS - 1 : -1])
        if not ends or not _alike(first[:-1], second[1:]).all():
            continue  # the unmatched ends differ by more than a step
        in_warm_up = inside[: max(0, _rising(second) - 1)].sum() > 1
        return Pattern.SHIFTED_WARM_UP if in_warm_up else Pattern.SHIFTED, {"early": early, "late": late}
    return None


def _continues(end: Floats) -> bool:
    """Whether the first rate is as near to the next as the others are to each other."""
    moves = np.abs(np.diff(end))
    return bool(moves[0] <= 2 * moves[1:].max() + _OF_PEAK * np.abs(end).max())


def _rising(rates: Floats) -> int:
    """Number of warm-up rates before the peak; 0 if the schedule does not begin with a warm-up."""
    rising = rates < _RISING * rates.max()
    count = int(np.argmin(rising)) if not rising.all() else len(rising)
    rises = count > 1 and rates[count - 1] > rates[0] and (np.diff(rates[:count]) >= 0).all()
    return count if rises else 0


def _warm_up(called: tuple[str, str], step: Whole, target: Floats, baseline: Floats) -> Match | None:
    """Two warm-ups that begin a step apart and end together, and whether the schedules differ later."""
    start, other = _start(step, target), _start(step, baseline)
    if start is None or other is None or abs(abs(start - other) - 1) > _STRAIGHT:
        return None
    risen = (target >= _RISING * target.max()) & (baseline >= _RISING * baseline.max())
    if not risen.any() or not _alike(target[risen][:1], baseline[risen][:1], rough=1 / _RISING - 1 + _SAME).all():
        return None
    parted = _differ_after(int(np.argmax(risen)), step, target, baseline)
    early, late = called if start > other else reversed(called)
    starts = {"first": round(max(start, other)), "other": round(min(start, other))}
    pattern = Pattern.WARM_UP if parted is None else Pattern.WARM_UP_AND_DECAY
    return pattern, {"early": early, "late": late, **starts, "parted": parted}


def _differ_after(row: int, step: Whole, target: Floats, baseline: Floats) -> int | None:
    """The first step from a row on at which the rates differ by more than a step of either schedule."""
    step, target, baseline = step[row:], target[row:], baseline[row:]
    if len(step) < 2:
        return None
    slopes = [np.abs(np.gradient(side, step)) for side in (target, baseline)]
    apart = ~_alike(target, baseline, rough=1 - _RISING) & (np.abs(target - baseline) > 2 * np.maximum(*slopes))
    return int(step[int(np.argmax(apart))]) if apart.any() else None


def _start(step: Whole, rates: Floats) -> float | None:
    """The warm-up step a schedule begins with: 0 if the first rate is 0; None without a linear rise."""
    count = _rising(rates)
    if count < 3:
        return None
    at = step[:count].astype(np.float64) - 1
    slope, start = np.polyfit(at, rates[:count], 1)
    straight = np.abs(rates[:count] - (slope * at + start)).max() <= _STRAIGHT * slope
    return float(start / slope) if slope > 0 and straight else None


def _common_rates(pair: Pair) -> tuple[Whole, Floats, Floats]:
    """The common steps of the first run of each side, and both learning rates there."""
    tables = []
    for steps in (side.subjects[0].steps for side in pair.sides):
        rows = np.flatnonzero(steps.learning_rate.finite)
        step, last = np.unique(steps.step[rows][::-1], return_index=True)
        tables.append((step, steps.learning_rate.values[rows[::-1][last]]))
    step, here, there = common_steps(tables[0][0], tables[1][0])
    return step, tables[0][1][here], tables[1][1][there]


def _alike(target: Floats, baseline: Floats, rough: float = _SAME) -> Mask:
    peak = max(float(np.abs(rates).max(initial=0.0)) for rates in (target, baseline))
    return np.isclose(target, baseline, rtol=rough, atol=_OF_PEAK * peak)
