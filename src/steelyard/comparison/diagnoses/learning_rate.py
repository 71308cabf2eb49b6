"""Two schedules of the learning rate that are one step apart, a constant factor, or otherwise not one."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from steelyard.comparison.curve import common_steps
from steelyard.comparison.diagnoses.diagnosis import Cause, Diagnosis
from steelyard.comparison.tiers import Pair
from steelyard.reasons import SideName
from steelyard.records.columns import Floats, Mask, Whole
from steelyard.verdict import Subject

_SAME = 1e-3
_OF_PEAK = 1e-4
"""Rates that fall to 0 are told to few digits."""
_FEWEST = 5
_RISING = 0.98
_STRAIGHT = 0.05
"""Of a warm-up's slope: how far its rates may lie off a line."""
_ENDS = 4
"""Rates by which the first or the last of a schedule is judged."""
_WARM_UP = "NeMo warms up by (step + 1) / (warm-up + 1), Megatron from 0: shift one warm-up by a step"


@dataclass(frozen=True, slots=True)
class Rates:
    """The learning rates of both sides at the steps that both tell."""

    step: Whole
    ours: Floats
    theirs: Floats


@dataclass(frozen=True, slots=True)
class Shifted:
    """One schedule is the other a step later."""

    early: SideName
    late: SideName
    in_warm_up: bool

    @property
    def words(self) -> str:
        off = "the warm-up is off by one" if self.in_warm_up else "the schedules are one step apart"
        return f"the {self.late}'s learning rates are the {self.early}'s one step later: {off}"

    @property
    def remedy(self) -> str:
        return _WARM_UP if self.in_warm_up else "count the steps of both schedules from the same one"


@dataclass(frozen=True, slots=True)
class WarmUp:
    """Two warm-ups that begin a step apart and end together."""

    early: SideName
    late: SideName
    first: int
    """The step of a warm-up whose rate the early side begins with."""
    other: int
    parted: int | None
    """The step at which the schedules part again."""

    @property
    def words(self) -> str:
        again = "" if self.parted is None else f", and the schedules part again at step {self.parted:,}"
        return (
            f"the {self.early}'s warm-up is one step ahead of the {self.late}'s, and ends with it: its first rate is "
            f"that of step {self.first} of a warm-up, the other's of step {self.other}; the warm-up is off by one"
            f"{again}"
        )

    @property
    def remedy(self) -> str:
        return _WARM_UP if self.parted is None else f"{_WARM_UP}; and give both sides one minimum and decay"


@dataclass(frozen=True, slots=True)
class Factor:
    """One schedule is a multiple of the other."""

    ratio: float
    remedy = "give both sides one learning rate, minimum, warm-up and decay"

    @property
    def words(self) -> str:
        return f"the target's learning rate is {self.ratio:.4g} times the baseline's at every step"


@dataclass(frozen=True, slots=True)
class Parted:
    """Two schedules that are neither."""

    step: int
    remedy = Factor.remedy

    @property
    def words(self) -> str:
        schedule = "another schedule than the baseline's"
        return f"the target's learning rate is {schedule}: they part at step {self.step:,}"


def _evidence(step: int, target: float, baseline: float, **_: Any) -> Iterator[str]:
    yield f"at step {step:,} the rate is {target:.6g} on the target and {baseline:.6g} on the baseline"


CODE = Cause("learning_rate", "{pattern.words}", evidence=_evidence, confirm=lambda pattern, **_: str(pattern.remedy))
"""The learning rates of the two sides differ."""


def diagnose(pair: Pair) -> Iterator[Diagnosis]:
    rates = _common(*(side.subjects[0] for side in (pair.target, pair.baseline)))
    if len(rates.step) < _FEWEST:
        return
    differ = ~_alike(rates.ours, rates.theirs)
    if not differ.any():
        return
    first = int(np.argmax(differ))
    step, target, baseline = int(rates.step[first]), float(rates.ours[first]), float(rates.theirs[first])
    pattern = _shifted(rates) or _warm_up(rates) or _factor(rates) or Parted(step)
    yield Diagnosis(CODE, "both", {"pattern": pattern, "step": step, "target": target, "baseline": baseline})


def _factor(rates: Rates) -> Factor | None:
    given = (rates.ours > 0) & (rates.theirs > 0)
    ratio = rates.ours[given] / rates.theirs[given]
    if not len(ratio) or ((rates.ours > 0) != (rates.theirs > 0)).any() or np.ptp(ratio) > 2 * _SAME * ratio.mean():
        return None
    return Factor(float(ratio.mean()))


def _shifted(rates: Rates) -> Shifted | None:
    """Two schedules of which one is the other a step later.

    Rates that never change fit any shift, and the first and the last have no counterpart: they alone prove none.
    """
    if not (np.diff(rates.step) == 1).all():
        return None
    inside = ~_alike(rates.ours, rates.theirs)[1:-1]
    orders: tuple[tuple[SideName, SideName, Floats, Floats], ...] = (
        ("target", "baseline", rates.ours, rates.theirs),
        ("baseline", "target", rates.theirs, rates.ours),
    )
    for early, late, first, second in orders:
        if not inside.any() or not _alike(first[:-1], second[1:]).all():
            continue
        if not _goes_on(second[:_ENDS]) or not _goes_on(first[: -_ENDS - 1 : -1]):
            continue  # what a shift leaves without a counterpart differs by more than a step
        return Shifted(early, late, in_warm_up=bool(inside[: max(0, _rising(second) - 1)].sum() > 1))
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


def _warm_up(rates: Rates) -> WarmUp | None:
    """Two warm-ups that begin a step apart and end together; where the schedules part later, that is said too."""
    ours, theirs = rates.ours, rates.theirs
    mine, other = _start(rates.step, ours), _start(rates.step, theirs)
    if mine is None or other is None or abs(abs(mine - other) - 1) > _STRAIGHT:
        return None
    risen = (ours >= _RISING * ours.max()) & (theirs >= _RISING * theirs.max())
    if not risen.any() or not _alike(ours[risen][:1], theirs[risen][:1], rough=1 / _RISING - 1 + _SAME).all():
        return None
    ahead, behind = round(max(mine, other)), round(min(mine, other))
    parted = _parted_after(rates, int(np.argmax(risen)))
    if mine > other:
        return WarmUp("target", "baseline", ahead, behind, parted)
    return WarmUp("baseline", "target", ahead, behind, parted)


def _parted_after(rates: Rates, row: int) -> int | None:
    """The first step from a row on at which the rates are further apart than a step of either schedule."""
    ours, theirs = rates.ours[row:], rates.theirs[row:]
    if len(ours) < 2:
        return None
    slopes = [np.abs(np.gradient(side, rates.step[row:])) for side in (ours, theirs)]
    apart = ~_alike(ours, theirs, rough=1 - _RISING) & (np.abs(ours - theirs) > 2 * np.maximum(*slopes))
    return int(rates.step[row + int(np.argmax(apart))]) if apart.any() else None


def _start(step: Whole, rates: Floats) -> float | None:
    """Which step of its warm-up a schedule begins with: 0 where the first rate is 0; None without a straight rise."""
    count = _rising(rates)
    if count < 3:
        return None
    at = step[:count].astype(np.float64) - 1
    slope, start = np.polyfit(at, rates[:count], 1)
    straight = np.abs(rates[:count] - (slope * at + start)).max() <= _STRAIGHT * slope
    return float(start / slope) if slope > 0 and straight else None


def _common(ours: Subject, theirs: Subject) -> Rates:
    tables = []
    for subject in (ours, theirs):
        rows = np.flatnonzero(subject.steps.learning_rate.finite)
        step, last = np.unique(subject.steps.step[rows][::-1], return_index=True)
        tables.append((step, subject.steps.learning_rate.values[rows[::-1][last]]))
    step, here, there = common_steps(tables[0][0], tables[1][0])
    return Rates(step, tables[0][1][here], tables[1][1][there])


def _alike(ours: Floats, theirs: Floats, rough: float = _SAME) -> Mask:
    peak = max(float(np.abs(rates).max(initial=0.0)) for rates in (ours, theirs))
    found: Mask = np.isclose(ours, theirs, rtol=rough, atol=_OF_PEAK * peak)
    return found
