"""Loss curves of runs on one axis: tokens or steps."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Literal

import numpy as np

from steelyard.frameworks.registry import facts
from steelyard.records.columns import Floats, Whole
from steelyard.verdict import Subject
from steelyard.verdict.figures import tokens_of

Axis = Literal["tokens", "steps"]
_POINTS = 2000
"""Most points of a curve that is smoothed or resampled."""


@dataclass(frozen=True, slots=True)
class LossCurve:
    """Finite losses above 0, in order of steps; for a repeated step the last one."""

    step: Whole
    covered: Whole
    """Number of steps each loss is a mean of."""
    seen: Floats
    """Tokens or steps up to the middle of each record."""
    loss: Floats
    axis: Axis
    begin: float = 0.0
    """Tokens or steps before the first record, for a resumed run."""

    def __len__(self) -> int:
        return len(self.loss)

    def between(self, first: float, last: float) -> "LossCurve":
        return self.at_rows(np.flatnonzero((self.seen > first) & (self.seen <= last)))

    def at_rows(self, rows: Whole) -> "LossCurve":
        return LossCurve(self.step[rows], self.covered[rows], self.seen[rows], self.loss[rows], self.axis, self.begin)

    def thinned(self, points: int = _POINTS) -> tuple[Floats, Floats]:
        """Places and losses, as means of neighbors if there are too many."""
        width = -(-len(self) // points)
        whole = len(self) // width * width
        seen, loss = (column[:whole].reshape(-1, width).mean(axis=1) for column in (self.seen, self.loss))
        return seen, loss

    def over(self, first: Whole, last: Whole) -> "LossCurve":
        """Means over stretches of steps, each after its `first` and up to its `last`."""
        rows = np.searchsorted(self.step, np.stack([first, last], axis=1).ravel(), side="right")
        seen, loss = (
            np.add.reduceat(np.append(column * self.covered, 0.0), rows)[::2] / (last - first)
            if len(rows)
            else column[:0]
            for column in (self.seen, self.loss)
        )
        return LossCurve(last, last - first, seen, loss, self.axis, self.begin)


def loss_curves(sides: Sequence[Sequence[Subject]]) -> list[list[LossCurve]]:
    """The curves of every side on one axis: tokens if every record has them, else steps."""
    curves = [[_curve(subject, "tokens") for subject in subjects] for subjects in sides]
    if all(np.isfinite(curve.seen).all() for side in curves for curve in side):
        return curves
    return [[_curve(subject, "steps") for subject in subjects] for subjects in sides]


def on_common_records(curves: Sequence[Sequence[LossCurve]]) -> list[list[LossCurve]]:
    """Every curve as means over the same stretches of steps, as short as the records allow.

    A mean over ten steps of a falling curve lies above the curve in their middle, so log intervals must agree.
    """
    every = [curve for side in curves for curve in side]
    step, covered = every[0].step, every[0].covered
    if all(np.array_equal(curve.step, step) and np.array_equal(curve.covered, covered) for curve in every):
        return [list(side) for side in curves]
    last = reduce(np.intersect1d, (curve.step for curve in every))
    begun = reduce(np.intersect1d, (curve.step - curve.covered for curve in every))
    rows = np.searchsorted(begun, last) - 1
    last, first = last[rows >= 0], begun[rows[rows >= 0]]
    filled = np.append(True, first[1:] >= last[:-1])[: len(last)]
    for curve in every:
        covered = np.append(0, np.cumsum(curve.covered))
        inside = (covered[np.searchsorted(curve.step, at, side="right")] for at in (last, first))
        filled &= np.subtract(*inside) == last - first
    return [[curve.over(first[filled], last[filled]) for curve in side] for side in curves]


def common_stretch(curves: Sequence[Sequence[LossCurve]], first: float, last: float) -> list[list[LossCurve]]:
    """The records after `first` and up to `last`, of curves on common records."""
    inside = [(curve.seen > first) & (curve.seen <= last) for side in curves for curve in side]
    rows = np.flatnonzero(np.logical_and.reduce(inside))
    return [[curve.at_rows(rows) for curve in side] for side in curves]


def evaluations(subject: Subject) -> dict[int, float]:
    """Evaluation losses by step."""
    return {
        event.step: float(loss)
        for event in subject.events_of("eval")
        if event.step is not None and (loss := event.number("loss")) is not None
    }


def seen_after(subject: Subject, axis: Axis, steps: Whole) -> Floats:
    """Tokens or steps seen by the end of some steps, where evaluations take place."""
    rows, unit, ends = _records(subject, axis)
    step, covered = subject.steps.step[rows], subject.steps.steps_covered[rows]
    known = np.append(step[0] - covered[0], step), np.append(ends[0] - covered[0] * unit[0], ends)
    return np.asarray(np.interp(steps, *known) + np.maximum(steps - step[-1], 0) * unit[-1])


def common_steps(steps: Whole, others: Whole) -> tuple[Whole, Whole, Whole]:
    """The common steps, and the first row of each in both."""
    if len(steps) == len(others) and (np.diff(steps) > 0).all() and np.array_equal(steps, others):
        rows = np.arange(len(steps))  # usual for two runs of one job: no sorting needed
        return steps, rows, rows
    return np.intersect1d(steps, others, return_indices=True)


def differences(target: LossCurve, baseline: LossCurve) -> tuple[Whole, Floats]:
    """Relative differences of two curves at records of the same steps, with the last step of each record."""
    step, at, there = common_steps(target.step, baseline.step)
    alike = target.covered[at] == baseline.covered[there]
    with np.errstate(over="ignore"):
        return step[alike], target.loss[at[alike]] / baseline.loss[there[alike]] - 1


def _curve(subject: Subject, axis: Axis) -> LossCurve:
    steps = subject.steps
    rows, unit, ends = _records(subject, axis)
    step, covered = steps.step[rows], steps.steps_covered[rows]
    if facts(subject.run.manifest.framework).loss_of_last_step:
        covered = np.ones_like(covered)
    begin = float(ends[0] - covered[0] * unit[0]) if len(rows) else 0.0
    return LossCurve(step, covered, ends - (covered - 1) / 2 * unit, steps.loss.values[rows], axis, begin)


def _records(subject: Subject, axis: Axis) -> tuple[Whole, Floats, Floats]:
    """The rows of a curve in order, the tokens or steps of one step in each, and the sum by the end of each."""
    steps = subject.steps
    rows = np.flatnonzero(steps.loss.finite & (steps.loss.values > 0) & ~steps.flag("skipped"))
    _, last = np.unique(steps.step[rows][::-1], return_index=True)
    rows = rows[len(rows) - 1 - last]
    unit = tokens_of(steps, subject.planned_tokens_per_step)[rows] if axis == "tokens" else np.ones(len(rows))
    steps_since = np.diff(steps.step[rows], prepend=0)  # steps of an earlier run count as large as the first
    return rows, unit, np.cumsum(steps_since * unit)
