"""Two schedules of the learning rate that are one step apart, a constant factor, or otherwise not one."""

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
"""Rates that fall to 0 are told to few digits."""
_FEWEST = 5
_RISING = 0.98
_STRAIGHT = 0.05
"""Of a warm-up's slope: how far its rates may lie off a line."""
_ENDS = 4
"""Rates by which the first or the last of a schedule is judged."""
_LATER = "the {late}'s learning rates are the {early}'s one step later"
_AHEAD = (
    "the {early}'s warm-up is one step ahead of the {late}'s, and ends with it: its first rate is that of step {first} "
    "of a warm-up, the other's of step {other}; the warm-up is off by one"
)
_WARM_UP = "some frameworks warm up by (step + 1) / (warm-up + 1), others from 0: shift one warm-up by a step"
_SCHEDULE = "give both sides one learning rate, minimum, warm-up and decay"


class Pattern(Enum):
    """How two schedules differ, and the remedy."""

    SHIFTED = f"{_LATER}: the schedules are one step apart", "count the steps of both schedules from the same one"
    SHIFTED_WARM_UP = f"{_LATER}: the warm-up is off by one", _WARM_UP
    WARM_UP = _AHEAD, _WARM_UP
    WARM_UP_AND_DECAY = (
        f"{_AHEAD}, and the schedules part again at step {{parted:,}}",
        f"{_WARM_UP}; and give both sides one minimum and decay",
    )
    FACTOR = "the target's learning rate is {ratio:.4g} times the baseline's at every step", _SCHEDULE
    OTHER = (
        "the target's learning rate is another schedule than the baseline's: they part at step {step:,}",
        _SCHEDULE,
    )


Match = tuple[Pattern, dict[str, Any]]
"""A pattern, and the values that its sentence names."""


def _evidence(step: int, target: float, baseline: float, **_: Any) -> Iterator[str]:
    yield f"at step {step:,} the rate is {target:.6g} on the target and {baseline:.6g} on the baseline"


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
    shifted = _shifted(step, target, baseline) or _warm_up(step, target, baseline)
    pattern, values = shifted or _factor(target, baseline) or (Pattern.OTHER, {})
    yield Diagnosis(CODE, "both", {"pattern": pattern, **first, **values})


def _factor(target: Floats, baseline: Floats) -> Match | None:
    given = (target > 0) & (baseline > 0)
    ratio = target[given] / baseline[given]
    if not len(ratio) or ((target > 0) != (baseline > 0)).any() or np.ptp(ratio) > 2 * _SAME * ratio.mean():
        return None
    return Pattern.FACTOR, {"ratio": float(ratio.mean())}


def _shifted(step: Whole, target: Floats, baseline: Floats) -> Match | None:
    """One a step after the other. Rates that never change fit any shift, and the ends have no counterpart."""
    inside = ~_alike(target, baseline)[1:-1]
    if not (np.diff(step) == 1).all() or not inside.any():
        return None
    orders = (("target", "baseline", target, baseline), ("baseline", "target", baseline, target))
    for early, late, first, second in orders:
        ends = _goes_on(second[:_ENDS]) and _goes_on(first[: -_ENDS - 1 : -1])
        if not ends or not _alike(first[:-1], second[1:]).all():
            continue  # what a shift leaves without a counterpart differs by more than a step
        in_warm_up = inside[: max(0, _rising(second) - 1)].sum() > 1
        return Pattern.SHIFTED_WARM_UP if in_warm_up else Pattern.SHIFTED, {"early": early, "late": late}
    return None


def _goes_on(end: Floats) -> bool:
    """Whether the first of some rates is no further from the next than a schedule that moves as those do may be."""
    moves = np.abs(np.diff(end))
    return bool(moves[0] <= 2 * moves[1:].max() + _OF_PEAK * np.abs(end).max())


def _rising(rates: Floats) -> int:
    """How many rates a warm-up has before it reaches the peak; 0 where the schedule does not begin with one."""
    rising = rates < _RISING * rates.max()
    count = int(np.argmin(rising)) if not rising.all() else len(rising)
    rises = count > 1 and rates[count - 1] > rates[0] and (np.diff(rates[:count]) >= 0).all()
    return count if rises else 0


def _warm_up(step: Whole, target: Floats, baseline: Floats) -> Match | None:
    """Two warm-ups that begin a step apart and end together; where the schedules part later, that is said too."""
    start, other = _start(step, target), _start(step, baseline)
    if start is None or other is None or abs(abs(start - other) - 1) > _STRAIGHT:
        return None
    risen = (target >= _RISING * target.max()) & (baseline >= _RISING * baseline.max())
    if not risen.any() or not _alike(target[risen][:1], baseline[risen][:1], rough=1 / _RISING - 1 + _SAME).all():
        return None
    parted = _parted_after(int(np.argmax(risen)), step, target, baseline)
    early, late = ("target", "baseline") if start > other else ("baseline", "target")
    starts = {"first": round(max(start, other)), "other": round(min(start, other))}
    pattern = Pattern.WARM_UP if parted is None else Pattern.WARM_UP_AND_DECAY
    return pattern, {"early": early, "late": late, **starts, "parted": parted}


def _parted_after(row: int, step: Whole, target: Floats, baseline: Floats) -> int | None:
    """The first step from a row on at which the rates are further apart than a step of either schedule."""
    step, target, baseline = step[row:], target[row:], baseline[row:]
    if len(step) < 2:
        return None
    slopes = [np.abs(np.gradient(side, step)) for side in (target, baseline)]
    apart = ~_alike(target, baseline, rough=1 - _RISING) & (np.abs(target - baseline) > 2 * np.maximum(*slopes))
    return int(step[int(np.argmax(apart))]) if apart.any() else None


def _start(step: Whole, rates: Floats) -> float | None:
    """Which step of its warm-up a schedule begins with: 0 where the first rate is 0; None without a straight rise."""
    count = _rising(rates)
    if count < 3:
        return None
    at = step[:count].astype(np.float64) - 1
    slope, start = np.polyfit(at, rates[:count], 1)
    straight = np.abs(rates[:count] - (slope * at + start)).max() <= _STRAIGHT * slope
    return float(start / slope) if slope > 0 and straight else None


def _common_rates(pair: Pair) -> tuple[Whole, Floats, Floats]:
    """The steps that both sides' first runs tell a rate of, and the rates of each there."""
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
