"""How much of a gap each of several changes makes: factors that multiply to the gap, and their shares of it.

Each rung of a ladder has one change more than the rung before. Rungs run in turns, one run of each per repeat, so they
are compared within repeats: what changes with time affects all rungs of a repeat alike.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from steelyard.comparison.intervals import (
    FEWEST,
    LEVEL,
    SAME,
    Between,
    between,
    geometric_mean,
    paired,
    quantile,
    welch,
)
from steelyard.records.columns import Floats


@dataclass(frozen=True, slots=True)
class Share:
    """The part of a gap's logarithm; parts add up to 1. Negative where a change acts against the gap."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Factor:
    """One figure over another."""

    value: float
    estimate: Between | None
    """None with fewer than three repeats, or without any spread."""
    share: Share | None = None
    """None without an interval, and where the gap is within noise."""

    @property
    def interval(self) -> tuple[float, float] | None:
        return self.estimate.interval() if self.estimate else None

    @property
    def within_noise(self) -> bool:
        """Whether the interval contains 1."""
        return self.interval is not None and self.interval[0] <= 1 <= self.interval[1]


@dataclass(frozen=True, slots=True)
class _Contrast:
    """A difference of logarithms: of rungs in each repeat, and of the target, which has its own runs."""

    rungs: Floats
    """Per repeat."""
    target: float = 0.0
    """Weight of the target's mean."""


@dataclass(frozen=True, slots=True)
class Ladder:
    """Figures of every rung, one per repeat, and of the target's own runs, where there are any."""

    rungs: Sequence[Sequence[float]]
    target: Sequence[float] = ()

    def steps(self) -> list[Factor]:
        """Each rung over the one before."""
        pairs = [list(zip(after, before, strict=True)) for before, after in pairwise(self.rungs)]
        parts = [_Contrast(after - before) for before, after in pairwise(self._logs)]
        return [self._factor(of_rungs(pair), part) for pair, part in zip(pairs, parts, strict=True)]

    def rest(self) -> Factor | None:
        """The target over the last rung; None without a target."""
        if not self.target:
            return None
        return self._factor(of_sides(self.target, self.rungs[-1]), _Contrast(-self._logs[-1], 1.0))

    def changes(self) -> Factor:
        """The last rung over the first."""
        return of_rungs(list(zip(self.rungs[-1], self.rungs[0], strict=True)))

    def gap(self) -> Factor:
        """The target over the first rung; without a target, the last rung over it."""
        return of_sides(self.target, self.rungs[0]) if self.target else self.changes()

    @property
    def _logs(self) -> list[Floats]:
        return [np.log(np.asarray(rung, dtype=np.float64)) for rung in self.rungs]

    def _factor(self, factor: Factor, part: _Contrast) -> Factor:
        gap = _Contrast(-self._logs[0], 1.0) if self.target else _Contrast(self._logs[-1] - self._logs[0])
        known = factor.estimate and self.gap().estimate
        return Factor(factor.value, factor.estimate, self._share(part, gap) if known else None)

    def _share(self, part: _Contrast, gap: _Contrast) -> Share | None:
        """By Fieller's theorem: all shares s for which a t test does not reject part = s x gap."""
        at, of = self._mean(part), self._mean(gap)
        if not of:
            return None
        t = quantile(self._freedom(part, gap, at / of), 0.5 + LEVEL / 2)
        own, both, whole = self._covariance(part, part), self._covariance(part, gap), self._covariance(gap, gap)
        square, middle = of**2 - t**2 * whole, at * of - t**2 * both
        if square <= 0:  # the gap is within noise
            return None
        half = math.sqrt(max(middle**2 - square * (at**2 - t**2 * own), 0.0))
        return Share(at / of, (middle - half) / square, (middle + half) / square)

    def _mean(self, contrast: _Contrast) -> float:
        of_target = contrast.target * math.log(geometric_mean(self.target)) if self.target else 0.0
        return float(contrast.rungs.mean()) + of_target

    def _covariance(self, first: _Contrast, second: _Contrast) -> float:
        return sum(part for part, _ in self._parts(first, second))

    def _parts(self, first: _Contrast, second: _Contrast) -> Iterator[tuple[float, int]]:
        """Covariance of two means with its degrees of freedom: within repeats, and of the target's runs."""
        repeats = len(first.rungs)
        yield float(np.cov(first.rungs, second.rungs)[0, 1]) / repeats, repeats - 1
        if self.target:
            runs, variance = len(self.target), float(np.log(self.target).var(ddof=1))
            yield first.target * second.target * variance / runs, runs - 1

    def _freedom(self, part: _Contrast, gap: _Contrast, share: float) -> float:
        """Degrees of freedom of part - share x gap, by Welch and Satterthwaite, less for unequal counts of runs."""
        apart = _Contrast(part.rungs - share * gap.rungs, part.target - share * gap.target)
        variances = list(self._parts(apart, apart))
        freedom = welch(1.0, variances).freedom
        if not self.target:
            return freedom
        fewer, more = sorted((len(part.rungs), len(self.target)))
        return max(freedom - math.log2(more / fewer), fewer - 1.0)


def of_rungs(pairs: Sequence[tuple[float, float]]) -> Factor:
    """The ratio of paired figures; without an interval if they are too few or do not vary."""
    value = geometric_mean([after / before for after, before in pairs])
    estimate = paired(pairs) if len(pairs) >= FEWEST else None
    return Factor(value, estimate if estimate and estimate.standard_error > SAME else None)


def of_sides(after: Sequence[float], before: Sequence[float]) -> Factor:
    """The ratio of figures of independent runs."""
    return Factor(geometric_mean(after) / geometric_mean(before), between(after, before))
