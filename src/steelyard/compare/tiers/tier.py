"""What is asked about, and what an answer is."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import cycle, islice
from typing import Any

import numpy as np

from steelyard.compare.contract import Agreement, Clause
from steelyard.compare.curve import LossCurve, common_begin, common_end, loss_curves
from steelyard.compare.side import Side
from steelyard.verdict import Subject

ROUNDOFF = {"fp8": 0.01, "bf16": 2.0**-8, "fp16": 2.0**-11, "fp32": 2.0**-24}
"""How far a number may be from the next that the format has, as a share of it; a loss of fp8 is a mean of many such."""


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
    target_loss: float | None = None
    """A loss that was asked for, which both sides are to reach."""

    @cached_property
    def curves(self) -> list[list[LossCurve]]:
        """Of the target's runs, and of the baseline's."""
        return loss_curves([self.target.subjects, self.baseline.subjects])

    @cached_property
    def end(self) -> float:
        """How far all runs went."""
        return common_end(self.curves)

    @cached_property
    def begin(self) -> float:
        """From where on all of them have a record."""
        return common_begin(self.curves)

    @property
    def up_to(self) -> str:
        """How far that is, in words: what a tier says holds up to there."""
        return f"{self.end:,.0f} {self.curves[0][0].axis}"

    def after(self, share: float) -> float:
        """The place by which they went so much of their common way."""
        return self.begin + share * (self.end - self.begin)

    def same(self, dotted: str) -> bool | None:
        """Whether the sides agree in a parameter; None where that is not known."""
        clause = next(one for one in self.clauses if one.dotted == dotted)
        return None if clause.status == Agreement.UNKNOWN else clause.status == Agreement.EQUAL

    @cached_property
    def matched(self) -> list[tuple[LossCurve, LossCurve]]:
        """Runs that should start from the same weights: of one seed, each with one of the other side.

        Of seeds that are not known only one run a side may be held against the other.
        """
        ours, theirs = (by_seed(side, curves) for side, curves in self._sides())
        found: list[tuple[LossCurve, LossCurve]] = []
        for seed in ours.keys() & theirs.keys():
            one, other = ours[seed], theirs[seed]
            if seed is None and len(one) + len(other) > 2:
                continue
            count = max(len(one), len(other))
            found += zip(islice(cycle(one), count), islice(cycle(other), count), strict=True)
        return found

    @cached_property
    def seeds(self) -> tuple[int, int]:
        """How many different seeds are known of each side."""
        ours, theirs = (len(by_seed(side, curves).keys() - {None}) for side, curves in self._sides())
        return ours, theirs

    def of_seeds(self, figures: Sequence[Sequence[float]]) -> list[list[float]]:
        """A figure a seed: of runs that repeat one their geometric mean; a run of unknown seed stands for itself."""
        made = []
        for (side, _), values in zip(self._sides(), figures, strict=True):
            groups: dict[Any, list[float]] = {}
            for at, (subject, value) in enumerate(zip(side.subjects, values, strict=True)):
                seed = _seed(subject)
                groups.setdefault(("run", at) if seed is None else seed, []).append(value)
            made.append([math.exp(float(np.log(group).mean())) for group in groups.values()])
        return made

    def _sides(self) -> list[tuple[Side, list[LossCurve]]]:
        return list(zip((self.target, self.baseline), self.curves, strict=True))

    @property
    def one_start(self) -> bool:
        """Whether runs of the two sides may start from the same weights, so that chance is no excuse."""
        return bool(self.matched)

    def rounding(self) -> float:
        """What a difference of number formats may do to a single loss; 0 where there is none.

        A mean over many steps has no such excuse: the format's rounding is to both sides.
        """
        formats = {subject.precision for side in (self.target, self.baseline) for subject in side.subjects}
        return max(ROUNDOFF.get(one or "", 0.0) for one in formats) if len(formats) > 1 else 0.0


def by_seed(side: Side, curves: Sequence[LossCurve]) -> dict[Any, list[LossCurve]]:
    found: dict[Any, list[LossCurve]] = {}
    for subject, curve in zip(side.subjects, curves, strict=True):
        found.setdefault(_seed(subject), []).append(curve)
    return found


def _seed(subject: Subject) -> Any:
    return subject.value("training.seed")
