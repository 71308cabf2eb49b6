"""The speed of learning: tokens to reach a loss, target over baseline, at several losses that both reach.

The level alone misses a run that learns 30% slower: its loss ends only 1.2% higher.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from steelyard.accounting.arrays import around_median
from steelyard.comparison.chance import LEVEL_SPREAD, SPEED_SPREAD
from steelyard.comparison.curve import Axis, LossCurve, common_stretch, on_common_records
from steelyard.comparison.intervals import Between, geometric_mean
from steelyard.comparison.phrases import compared
from steelyard.comparison.tiers import Answer, OverSeeds, Pair, Tier
from steelyard.comparison.tiers.level import basis, between_records, conclusion, judged, settled, unsure_by
from steelyard.reasons import Code, Reason
from steelyard.records.columns import Floats, Whole

NAME = "learning_speed"
MARGIN = 0.02
LEVELS = 7
_LEAST_WARM_UP, _MOST_WARM_UP = 0.02, 0.1
"""Share of the tokens left out as warm-up, at least and at most; the most if the warm-up is unknown."""
_DRAWS = 200
_FEWEST_POINTS = 30
_LEARNT, _FALL = 6.0, 1e-3
"""A loss must fall by so many times its noise, and by such a share, for a speed to be measured."""
_AROUND = 25
"""Neighbors whose mean is subtracted to get the noise."""
_MOST_CORRELATED = 0.97
_GAP = 0.05
"""Share of the tokens; a longer gap without records is not interpolated."""
_NEIGHBORS, _APART = 5, 6.0
"""Neighbors on each side, and median deviations from them."""


def more_tokens(called: tuple[str, str], axis: Axis, ratio: float, low: float, high: float) -> tuple[str, str]:
    """`mi300x takes 3.0% more tokens than h100`, and the 95% CI."""
    more, interval = compared(ratio, low, high, f"more {axis}", f"fewer {axis}")
    return f"{called[0]} takes {more} than {called[1]}", interval


def _sentence(
    called: tuple[str, str],
    losses: tuple[float, float],
    axis: Axis,
    seeds: OverSeeds | None,
    common: bool,
    **judged: Any,
) -> str:
    more, interval = more_tokens(called, axis, judged["ratio"], judged["low"], judged["high"])
    reached = f"to reach losses from {losses[0]:.4g} to {losses[1]:.4g}"
    return f"{more} {reached} ({interval}, {basis(seeds, common)}): {conclusion(**judged)}"


COMPARED = Code("learning_speed_compared", _sentence)
"""The ratio of the tokens that the two sides take to the same losses."""
OBSERVED = Code("learning_speed_observed", _sentence)
"""The speeds of these runs are equivalent, or differ by no more than seeds explain; more seeds per side decide."""
NOT_MEASURED = Code("learning_speed_not_measured", "speed of learning unknown: {cause.message}")
"""The records do not show where the two sides reach the same losses."""
TOO_FEW = Code("losses_too_few", "fewer than {fewest} losses on the common stretch")
"""The two sides have too few losses in common."""
GAP = Code("losses_gap", "a gap of {gap:,.0f} {axis} without records")
"""A long stretch of a run has no record."""
FLAT = Code("losses_flat", "losses do not fall on the common stretch")
"""The losses do not fall by more than their noise."""


@dataclass(frozen=True, slots=True)
class Line:
    """A run's losses without spikes, and the nearest falling curve."""

    seen: Floats
    loss: Floats
    smooth: Floats


@dataclass(frozen=True)
class Reached:
    """Where every run of both sides reaches the same losses."""

    losses: Floats
    """Highest first."""
    lines: list[list[Line]]
    off: float = 0.0
    """Uncertainty of a place, if the sides have too few records of the same steps."""

    @cached_property
    def places(self) -> list[list[Floats]]:
        return [[reach(line.seen, line.smooth, self.losses) for line in side] for side in self.lines]

    @property
    def left_open(self) -> float:
        """Uncertainty of the logarithm of the ratio over all losses."""
        return float(np.log1p(self.off / self._nearest).mean())

    @property
    def spread_of_seeds(self) -> float:
        """The deviation between seeds of the logarithm of the tokens: where the loss falls slowly, levels cost many."""
        more = float(np.mean([math.log(places[-1] / places[0]) for side in self.places for places in side]))
        return max(SPEED_SPREAD, LEVEL_SPREAD * more / math.log(self.losses[0] / self.losses[-1]))

    def by_chance(self) -> Between:
        """Target over baseline over all losses, with an interval from the noise of the curves."""
        drawn, scatter = float(self._draws.mean(axis=1).std(ddof=1)), float(self._logs.std(ddof=1)) / math.sqrt(LEVELS)
        return _between(float(self._logs.mean()), drawn, scatter)

    def at_the_last(self) -> Between:
        """The same at the lowest loss."""
        scatter = float(self._logs.std(ddof=1))
        ratio = _between(float(self._logs[-1]), float(self._draws[:, -1].std(ddof=1)), scatter)
        return unsure_by(math.log1p(self.off / float(self._nearest[-1])), ratio)

    @cached_property
    def _logs(self) -> Floats:
        """The logarithm of target over baseline at each loss."""
        target, baseline = (np.mean([np.log(places) for places in side], axis=0) for side in self.places)
        return np.asarray(target - baseline)

    @property
    def _nearest(self) -> Floats:
        """Where the first of all runs reaches each loss."""
        return np.asarray(np.min([places for side in self.places for places in side], axis=0))

    @cached_property
    def _draws(self) -> Floats:
        """The same for resampled noise (block bootstrap), one row per draw."""
        chance = np.random.default_rng(0)
        noise = [[line.loss - running_mean(line.loss) for line in side] for side in self.lines]
        lengths = dict.fromkeys(len(own) for side in noise for own in side)  # the same batches have the same noise
        width = max(_width(own) for side in noise for own in side)
        draws = []
        for _ in range(_DRAWS):
            rows = {length: _blocks(chance, length, min(width, length // 4)) for length in lengths}
            target, baseline = (self._drawn(*side, rows) for side in zip(self.lines, noise, strict=True))
            draws.append(target - baseline)
        return np.array(draws)

    def _drawn(self, lines: list[Line], noise: list[Floats], rows: dict[int, Whole]) -> Floats:
        logs = [
            np.log(reach(line.seen, smoothed(line.smooth + own[rows[len(own)]]), self.losses))
            for line, own in zip(lines, noise, strict=True)
        ]
        mean: Floats = np.mean(logs, axis=0)
        return mean


def _between(log: float, drawn: float, scatter: float) -> Between:
    """The larger error of resampled noise and of the scatter between losses, which also shows slow drifts."""
    return Between(math.exp(log), max(drawn, scatter), LEVELS - 1 if scatter > drawn else math.inf)


def reached(pair: Pair) -> Reached | Reason:
    """Where both sides reach the same losses, or why that is unknown."""
    curves, off = common_stretch(on_common_records(pair.curves), pair.begin, pair.end), 0.0
    if len(curves[0][0]) < _FEWEST_POINTS:
        curves = [[curve.between(pair.begin, pair.end) for curve in side] for side in pair.curves]
        if min(len(curve) for side in curves for curve in side) < _FEWEST_POINTS:
            return Reason(TOO_FEW, {"fewest": _FEWEST_POINTS})
        off = between_records(curves)
    gap = max(float(np.diff(curve.seen).max()) for side in curves for curve in side)
    if gap > _GAP * (pair.end - pair.begin):
        return Reason(GAP, {"gap": gap, "axis": pair.axis})
    thinned = [[(seen - pair.begin, calmed(loss)) for seen, loss in map(LossCurve.thinned, side)] for side in curves]
    lines = [[Line(seen, loss, smoothed(loss)) for seen, loss in side] for side in thinned]
    every = [line for side in lines for line in side]
    warm_up = pair.warm_up if pair.warm_up is not None else _MOST_WARM_UP
    losses = _common_losses(every, min(max(warm_up, _LEAST_WARM_UP), _MOST_WARM_UP) * (pair.end - pair.begin))
    noise = max(_noise(line) for line in every)
    if losses is None or losses[0] - losses[-1] < max(_LEARNT * noise, _FALL * losses[0]):
        return Reason(FLAT)
    return Reached(losses, lines, off)


def ask(pair: Pair) -> Tier:
    common = reached(pair)
    if isinstance(common, Reason):
        return Tier(NAME, Answer.UNKNOWN, Reason(NOT_MEASURED, {"cause": common}), margin=MARGIN)
    figures = [[geometric_mean(places) for places in side] for side in common.places]
    ratio, seeds, by_chance = settled(pair, figures, common.by_chance, common.spread_of_seeds)
    losses = float(common.losses[0]), float(common.losses[-1])
    values = {"called": pair.called, "losses": losses, "axis": pair.axis, "seeds": seeds, "common": not common.off}
    return judged(NAME, (COMPARED, OBSERVED), unsure_by(common.left_open, ratio), MARGIN, values, by_chance)


def calmed(loss: Floats) -> Floats:
    """Losses without outliers (Hampel's filter): one spike would bend the whole falling curve."""
    padded = np.pad(loss, _NEIGHBORS, mode="reflect")
    usual, spread = around_median(np.lib.stride_tricks.sliding_window_view(padded, 2 * _NEIGHBORS + 1))
    return np.where(np.abs(loss - usual) > _APART * spread, usual, loss)


def smoothed(loss: Floats) -> Floats:
    """The nearest falling curve (isotonic regression)."""
    from scipy.optimize import isotonic_regression

    falling: Floats = isotonic_regression(loss, increasing=False).x
    return falling


def _common_losses(lines: list[Line], begin: float) -> Floats | None:
    """Evenly spaced losses that every curve passes after its warm-up, highest first."""
    highest = min(float(np.interp(begin, line.seen, line.smooth)) for line in lines)
    lowest = max(float(line.smooth[-1]) for line in lines)
    return np.linspace(highest, lowest, LEVELS + 2)[1:-1] if highest > lowest else None


def reach(seen: Floats, smooth: Floats, losses: Floats) -> Floats:
    """Where a smoothed curve first reaches each loss."""
    rows = np.searchsorted(-smooth, -losses, side="left").clip(1, len(smooth) - 1)
    above, below = smooth[rows - 1], smooth[rows]
    share = np.divide(above - losses, above - below, out=np.ones_like(losses), where=above > below).clip(0, 1)
    places: Floats = seen[rows - 1] + share * (seen[rows] - seen[rows - 1])
    return places


def _noise(line: Line) -> float:
    """Noise of a smoothed loss, from the median deviation, which outliers hardly change."""
    return float(around_median(line.loss - line.smooth)[1]) / math.sqrt(10)


def running_mean(loss: Floats) -> Floats:
    """The mean that is subtracted to get the noise; a falling curve would keep its slow part."""
    width = 2 * (min(_AROUND, len(loss)) // 2) + 1
    return np.convolve(np.pad(loss, width // 2, mode="reflect"), np.full(width, 1 / width), mode="valid")


def _width(noise: Floats) -> int:
    """Block width that keeps the correlation of neighbors (Carlstein, Annals of Statistics 14, 1986)."""
    x = noise - noise.mean()
    power = float(x @ x)
    correlation = min(max(float(x[1:] @ x[:-1]) / power, 0.0), _MOST_CORRELATED) if power else 0.0
    growth = max(1.0, math.pow(2 * correlation / (1 - correlation**2), 2 / 3))
    return max(1, round(growth * math.cbrt(len(noise))))


def _blocks(chance: np.random.Generator, n: int, width: int) -> Whole:
    """`n` rows, in blocks of neighbors."""
    starts = chance.integers(0, n - width + 1, size=-(-n // width))
    return (starts[:, None] + np.arange(width)).ravel()[:n]
