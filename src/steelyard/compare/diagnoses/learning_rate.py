"""Two schedules of the learning rate that are one step apart, a constant factor, or otherwise not one."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from steelyard.compare.curve import common_steps
from steelyard.compare.diagnoses.diagnosis import Diagnosis
from steelyard.compare.tiers import Pair
from steelyard.records.columns import Floats, Mask, Whole
from steelyard.verdict import Subject

CODE = "learning_rate"
_SAME = 1e-3
_OF_PEAK = 1e-4
"""Rates that fall to 0 are told to few digits."""
_FEWEST = 5
_RISING = 0.98
_STRAIGHT = 0.05
"""Of a warm-up's slope: how far its rates may lie off a line."""


@dataclass(frozen=True, slots=True)
class Rates:
    """The learning rates of both sides at the steps that both tell."""

    step: Whole
    ours: Floats
    theirs: Floats

    def at(self, row: int) -> str:
        return (
            f"at step {self.step[row]:,} the rate is {self.ours[row]:.6g} on the target and {self.theirs[row]:.6g} on "
            "the baseline"
        )


def diagnose(pair: Pair) -> Iterator[Diagnosis]:
    found = _common(*(side.subjects[0] for side in (pair.target, pair.baseline)))
    if len(found.step) < _FEWEST:
        return
    differ = ~_alike(found.ours, found.theirs)
    if not differ.any():
        return
    first = int(np.argmax(differ))
    words = _warm_up(found)
    if words is not None:
        yield Diagnosis(
            CODE,
            "both",
            words,
            (found.at(first),),
            "NeMo warms up by (step + 1) / (warm-up + 1), Megatron from 0: shift one warm-up by a step",
        )
        return
    words = _factor(found) or f"another schedule than the baseline's: they part at step {found.step[first]:,}"
    yield Diagnosis(
        CODE,
        "both",
        f"the target's learning rate is {words}",
        (found.at(first),),
        "give both sides one learning rate, minimum, warm-up and decay",
    )


def _factor(found: Rates) -> str | None:
    given = (found.ours > 0) & (found.theirs > 0)
    ratio = found.ours[given] / found.theirs[given]
    if not len(ratio) or ((found.ours > 0) != (found.theirs > 0)).any() or np.ptp(ratio) > 2 * _SAME * ratio.mean():
        return None
    return f"{ratio.mean():.4g} times the baseline's at every step"


def _warm_up(found: Rates) -> str | None:
    """Two warm-ups of which one is a step ahead of the other."""
    ours, theirs = found.ours, found.theirs
    every = bool((np.diff(found.step) == 1).all())
    for early, late, first, second in (("target", "baseline", ours, theirs), ("baseline", "target", theirs, ours)):
        if every and _alike(first[:-1], second[1:]).all():
            return f"the {late}'s learning rates are the {early}'s one step later: the warm-up is off by one"
    mine, other = _start(found.step, ours), _start(found.step, theirs)
    if mine is None or other is None or abs(abs(mine - other) - 1) > _STRAIGHT:
        return None
    risen = (ours >= _RISING * ours.max()) & (theirs >= _RISING * theirs.max())
    if not risen.any() or not _alike(ours[risen][:1], theirs[risen][:1], rough=1 - _RISING).all():
        return None
    early, late = ("target", "baseline") if mine > other else ("baseline", "target")
    return (
        f"the {early}'s warm-up is one step ahead of the {late}'s, and ends with it: its first rate is that of step "
        f"{max(mine, other):.0f} of a warm-up, the other's of step {min(mine, other):.0f}; the warm-up is off by one"
    )


def _start(step: Whole, rates: Floats) -> float | None:
    """Which step of its warm-up a schedule begins with: 0 where the first rate is 0; None without a straight rise."""
    rising = rates < _RISING * rates.max()
    count = int(np.argmin(rising)) if not rising.all() else len(rising)
    if count < 3 or not rates[count - 1] > rates[0]:
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
