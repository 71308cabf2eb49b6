"""The loss of a run over what it has seen, and curves of several runs on one axis."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from steelyard.records.columns import Floats, Whole
from steelyard.verdict import Subject

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
    """Tokens, or steps, up to the end of each record."""
    loss: Floats
    axis: Axis

    def __len__(self) -> int:
        return len(self.loss)

    def between(self, first: float, last: float) -> "LossCurve":
        """The stretch after `first` and up to `last`."""
        inside = (self.seen > first) & (self.seen <= last)
        return LossCurve(self.step[inside], self.covered[inside], self.seen[inside], self.loss[inside], self.axis)

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
    """The curves of every side on one axis: tokens where every run's are known, else steps."""
    known = all(subject.figures.tokens_per_step for subjects in sides for subject in subjects)
    axis: Axis = "tokens" if known else "steps"
    return [[_curve(subject, axis) for subject in subjects] for subjects in sides]


def common_end(curves: Sequence[Sequence[LossCurve]]) -> float:
    """How far every run of every side went."""
    return min((float(curve.seen[-1]) for side in curves for curve in side if len(curve)), default=0.0)


def differences(ours: LossCurve, theirs: LossCurve) -> tuple[Whole, Floats]:
    """Relative differences of two curves, at the steps that both record by themselves."""
    alone = [np.flatnonzero(curve.covered == 1) for curve in (ours, theirs)]
    step, at, there = np.intersect1d(
        ours.step[alone[0]], theirs.step[alone[1]], assume_unique=True, return_indices=True
    )
    return step, ours.loss[alone[0]][at] / theirs.loss[alone[1]][there] - 1


def _curve(subject: Subject, axis: Axis) -> LossCurve:
    steps = subject.steps
    rows = np.flatnonzero(steps.loss.finite & (steps.loss.values > 0) & ~steps.flag("skipped"))
    _, last = np.unique(steps.step[rows][::-1], return_index=True)
    rows = rows[len(rows) - 1 - last]
    unit = subject.figures.tokens_per_step if axis == "tokens" else 1
    return LossCurve(
        steps.step[rows],
        steps.steps_covered[rows],
        steps.step[rows].astype(np.float64) * float(unit or 1),
        steps.loss.values[rows],
        axis,
    )
