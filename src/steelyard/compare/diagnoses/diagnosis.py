"""What a diagnosis is, and how a curve ends."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from steelyard.compare.curve import LossCurve
from steelyard.compare.tiers import Pair
from steelyard.verdict import Subject

_FEW = 20
_TAIL = 10


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One cause, what it rests on, and what would confirm it."""

    code: str
    side: Literal["target", "baseline", "both"]
    message: str
    evidence: tuple[str, ...]
    confirm: str


@dataclass(frozen=True, slots=True)
class Ending:
    """Where a run's loss ends."""

    subject: Subject
    curve: LossCurve
    loss: float
    """The median of the last ten losses, or the last of a curve that is told at a few steps only."""
    mean: float
    """Over the last quarter: where little is left to learn, most batches have less of it than the mean."""
    first: float
    still_falls: bool

    @property
    def where(self) -> str:
        at = self.subject.steps.evidence(len(self.subject.steps) - 1)
        place = f" ({at.file}:{at.line})" if at else ""
        name = self.subject.run.directory.resolve().name
        return f"{name} ends at {self.loss:.5g} at step {self.curve.step[-1]:,}{place}"


def endings(pair: Pair) -> Iterator[tuple[Literal["target", "baseline"], list[Ending]]]:
    """How the runs of each side end; sides without a loss are left out."""
    for side, curves in zip((pair.target, pair.baseline), pair.curves, strict=True):
        found = [
            _ending(subject, curve) for subject, curve in zip(side.subjects, curves, strict=True) if len(curve) > 2
        ]
        if found:
            yield side.name, found


def _ending(subject: Subject, curve: LossCurve) -> Ending:
    tail = 1 if len(curve) < _FEW else _TAIL
    end = float(np.median(curve.loss[-tail:]))
    before = float(np.median(curve.loss[-2 * tail : -tail]))
    quarter = curve.loss[-max(1, len(curve) // 4) :] if len(curve) >= _FEW else curve.loss[-1:]
    return Ending(subject, curve, end, float(quarter.mean()), float(curve.loss[0]), before - end > 0.01 * before)
