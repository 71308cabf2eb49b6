"""What is asked about, and what an answer is."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

from steelyard.compare.contract import Agreement, Clause
from steelyard.compare.curve import LossCurve, common_end, loss_curves
from steelyard.compare.side import Side
from steelyard.verdict import Subject

ROUNDOFF = {"fp8": 2.0**-4, "bf16": 2.0**-8, "fp16": 2.0**-11, "fp32": 2.0**-24}
"""How far a number may be from the next that the format has, as a share of it."""


class Answer(StrEnum):
    PASS = "pass"
    FAIL = "fail"
    UNKNOWN = "unknown"
    NOT_APPLICABLE = "not_applicable"


@dataclass(frozen=True, slots=True)
class Tier:
    """One question about two curves, and its answer."""

    tier: str
    status: Answer
    message: str
    observed: float | None = None
    margin: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Pair:
    """Two sides, their contract, and their curves on one axis."""

    target: Side
    baseline: Side
    clauses: Sequence[Clause]

    @cached_property
    def curves(self) -> list[list[LossCurve]]:
        """Of the target's runs, and of the baseline's."""
        return loss_curves([self.target.subjects, self.baseline.subjects])

    @cached_property
    def end(self) -> float:
        """How far all runs went."""
        return common_end(self.curves)

    def same(self, dotted: str) -> bool | None:
        """Whether the sides agree in a parameter; None where that is not known."""
        clause = next(one for one in self.clauses if one.dotted == dotted)
        return None if clause.status == Agreement.UNKNOWN else clause.status == Agreement.EQUAL

    @cached_property
    def matched(self) -> list[tuple[LossCurve, LossCurve]]:
        """Runs that should start from the same weights: of one seed, or one a side of which no seed is known."""
        ours, theirs = (
            dict(zip(map(_seed, side.subjects), curves, strict=True))
            for side, curves in zip((self.target, self.baseline), self.curves, strict=True)
        )
        if len(ours) < len(self.target.subjects) or len(theirs) < len(self.baseline.subjects):
            return []  # a seed that stands for two runs tells neither
        return [(ours[seed], theirs[seed]) for seed in ours if seed in theirs]

    def rounding(self) -> float:
        """What a difference of number formats may do to a loss; 0 where there is none."""
        formats = {subject.precision for side in (self.target, self.baseline) for subject in side.subjects}
        return max(ROUNDOFF.get(one or "", 0.0) for one in formats) if len(formats) > 1 else 0.0


def _seed(subject: Subject) -> Any:
    return subject.value("training.seed")
