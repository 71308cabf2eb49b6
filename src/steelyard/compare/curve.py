"""The loss of a run over what it has seen, and curves of several runs on one axis."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from steelyard.records.columns import Floats, Whole
from steelyard.verdict import Subject
from steelyard.verdict.figures import tokens_of

Axis = Literal["tokens", "steps"]

_POINTS = 2000
"""What is smoothed or drawn by chance is a curve of at most so many means of neighbours."""


@dataclass(frozen=True, slots=True)
class LossCurve:
    """Losses in order, as far as they can be one: finite and above 0; of a step that was done again, the last."""

    step: Whole
    covered: Whole
    """Over how many steps each loss is a mean."""
    seen: Floats
    """Tokens, or steps, up to the middle of what each record is a mean over, by what each of them says."""
    loss: Floats
    axis: Axis
    begin: float = 0.0
    """What was seen before the first record, where a run goes on with an earlier one."""

    def __len__(self) -> int:
        return len(self.loss)

    def between(self, first: float, last: float) -> "LossCurve":
        """The stretch after `first` and up to `last`."""
        inside = (self.seen > first) & (self.seen <= last)
        return LossCurve(
            self.step[inside], self.covered[inside], self.seen[inside], self.loss[inside], self.axis, self.begin
        )

    def at(self, places: Floats) -> Floats:
        """The loss at some places, drawn straight between records."""
        found: Floats = np.interp(places, self.seen, self.loss)
        return found

    def thinned(self, points: int = _POINTS) -> tuple[Floats, Floats]:
        """Places and losses, neighbours taken together until there are few enough."""
        width = -(-len(self) // points)
        whole = len(self) // width * width
        seen, loss = (column[:whole].reshape(-1, width).mean(axis=1) for column in (self.seen, self.loss))
        return seen, loss


def loss_curves(sides: Sequence[Sequence[Subject]]) -> list[list[LossCurve]]:
    """The curves of every side on one axis: tokens where every record's are known, else steps."""
    found = [[_curve(subject, "tokens") for subject in subjects] for subjects in sides]
    if all(np.isfinite(curve.seen).all() for side in found for curve in side):
        return found
    return [[_curve(subject, "steps") for subject in subjects] for subjects in sides]


def evaluations(subject: Subject) -> dict[int, float]:
    """Losses on data that is not trained on, by step."""
    return {
        event.step: float(loss)
        for event in subject.events_of("eval")
        if event.step is not None and isinstance(loss := event.details.get("loss"), int | float)
    }


def common_end(curves: Sequence[Sequence[LossCurve]]) -> float:
    """How far every run of every side went."""
    return min((float(curve.seen[-1]) for side in curves for curve in side if len(curve)), default=0.0)


def common_begin(curves: Sequence[Sequence[LossCurve]]) -> float:
    """From where on every run of every side has a record."""
    return max((curve.begin for side in curves for curve in side if len(curve)), default=0.0)


def common_steps(ours: Whole, theirs: Whole) -> tuple[Whole, Whole, Whole]:
    """The steps that both have, and where each has them first."""
    if len(ours) == len(theirs) and (np.diff(ours) > 0).all() and np.array_equal(ours, theirs):
        rows = np.arange(len(ours))  # as two runs of one job do: nothing is to be sorted
        return ours, rows, rows
    return np.intersect1d(ours, theirs, return_indices=True)


def differences(ours: LossCurve, theirs: LossCurve) -> tuple[Whole, Floats]:
    """Relative differences of two curves, where both have a record of the same steps; by the last of them."""
    step, at, there = common_steps(ours.step, theirs.step)
    alike = ours.covered[at] == theirs.covered[there]
    with np.errstate(over="ignore"):
        return step[alike], ours.loss[at[alike]] / theirs.loss[there[alike]] - 1


def _curve(subject: Subject, axis: Axis) -> LossCurve:
    steps = subject.steps
    rows = np.flatnonzero(steps.loss.finite & (steps.loss.values > 0) & ~steps.flag("skipped"))
    _, last = np.unique(steps.step[rows][::-1], return_index=True)
    rows = rows[len(rows) - 1 - last]
    step, covered = steps.step[rows], steps.steps_covered[rows]
    unit = tokens_of(steps, subject.planned_tokens_per_step)[rows] if axis == "tokens" else np.ones(len(rows))
    before = (step[:1] - covered[:1]) * unit[:1]  # steps of an earlier run, taken to be as large as its first here
    ends = np.cumsum(np.concatenate([before + covered[:1] * unit[:1], np.diff(step) * unit[1:]]))
    seen = ends - (covered - 1) / 2 * unit
    return LossCurve(step, covered, seen, steps.loss.values[rows], axis, float(before[0]) if len(rows) else 0.0)
