"""The speed of learning: tokens to reach a loss, target over baseline, at several losses that both reach.

The level alone misses a run that learns 30 % slower: its loss ends 1.2 % higher.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from steelyard.accounting.arrays import around_median
from steelyard.comparison.curve import Axis, LossCurve, common_stretch, on_common_records
from steelyard.comparison.intervals import Between, geometric_mean
from steelyard.comparison.tiers import Answer, OverSeeds, Pair, Tier
from steelyard.comparison.tiers.first_steps import one_start
from steelyard.comparison.tiers.level import OTHER_RECORDS, between_records, conclusion, figure, judged, unsure_by
from steelyard.reasons import Code, Reason
from steelyard.records.columns import Floats, Whole

NAME = "learning_speed"
MARGIN = 0.02
LEVELS = 7
_LEAST_WARM_UP, _MOST_WARM_UP = 0.02, 0.1
"""Of the way: losses of the warm-up tell nothing of speed, and where it is not known those of the first tenth."""
_DRAWS = 200
_FEWEST_POINTS = 30
_LEARNT, _FALL = 6.0, 1e-3
"""Times its own noise a loss must fall, and by such a share, or there is nothing whose speed could be told."""
_AROUND = 25
"""Neighbours whose mean noise is told from."""
_MOST_ALIKE = 0.97
_GAP = 0.05
"""Of the way, a stretch without a record across which no straight line is drawn."""
_NEIGHBOURS, _APART = 5, 6.0
"""Neighbours on each side, and median deviations from them."""


def _sentence(losses: tuple[float, float], axis: Axis, seeds: OverSeeds | None, common: bool, **judged: Any) -> str:
    speed = f"to {LEVELS} losses from {losses[0]:.4g} to {losses[1]:.4g} the target takes {figure(**judged)} times"
    basis = f"{seeds.words if seeds else 'within these runs'}{'' if common else OTHER_RECORDS}"
    return f"{speed} the {axis}, {basis}: {conclusion(**judged)}"


COMPARED = Code("learning_speed_compared", _sentence)
"""The ratio of the tokens that the two sides take to the same losses."""
OBSERVED = Code("learning_speed_observed", _sentence)
"""The speeds are equivalent in these runs; more seeds per side decide."""
NOT_MEASURED = Code("learning_speed_not_measured", "{cause.message}: no speed of learning can be told")
"""The records do not show where the two sides reach the same losses."""
TOO_FEW = Code("losses_too_few", "fewer than {fewest} losses where both sides are")
"""The two sides have too few losses in common."""
GAP = Code("losses_gap", "{gap:,.0f} {axis} are without a record")
"""A long stretch of a run has no record."""
FLAT = Code("losses_flat", "the losses hardly fall where both sides are")
"""The losses do not fall by more than their noise."""


@dataclass(frozen=True, slots=True)
class Line:
    """A run's losses over what it has seen, without spikes, and the falling curve nearest to them."""

    seen: Floats
    loss: Floats
    smooth: Floats


@dataclass(frozen=True)
class Reached:
    """Where every run of both sides comes down to the same losses."""

    losses: Floats
    """The highest first."""
    lines: list[list[Line]]
    off: float = 0.0
    """By how much a place may be where the sides have too few records of the same steps."""

    @cached_property
    def places(self) -> list[list[Floats]]:
        return [[reach(line.seen, line.smooth, self.losses) for line in side] for side in self.lines]

    @property
    def left_open(self) -> float:
        """Of the logarithm of the ratio, at all losses together."""
        return float(np.log1p(self.off / self._nearest).mean())

    def by_chance(self) -> Between:
        """Target over baseline at all losses together: how sure the curves are of it by themselves."""
        drawn, scatter = float(self._draws.mean(axis=1).std(ddof=1)), float(self._apart.std(ddof=1)) / math.sqrt(LEVELS)
        return unsure_by(self.left_open, _as_sure_as(float(self._apart.mean()), drawn, scatter))

    def at_the_last(self) -> Between:
        """The same at the lowest of the losses alone."""
        scatter = float(self._apart.std(ddof=1))
        ratio = _as_sure_as(float(self._apart[-1]), float(self._draws[:, -1].std(ddof=1)), scatter)
        return unsure_by(math.log1p(self.off / float(self._nearest[-1])), ratio)

    @cached_property
    def _apart(self) -> Floats:
        """At each loss, the logarithm of target over baseline."""
        target, baseline = (np.mean([np.log(places) for places in side], axis=0) for side in self.places)
        return np.asarray(target - baseline)

    @property
    def _nearest(self) -> Floats:
        """Where the first of all runs comes down to each loss."""
        return np.asarray(np.min([places for side in self.places for places in side], axis=0))

    @cached_property
    def _draws(self) -> Floats:
        """The same where blocks of each curve's own noise are drawn anew, a row a draw."""
        chance = np.random.default_rng(0)
        noise = [[line.loss - running_mean(line.loss) for line in side] for side in self.lines]
        lengths = dict.fromkeys(len(own) for side in noise for own in side)  # of the same batches the noise is one
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


def _as_sure_as(apart: float, drawn: float, scatter: float) -> Between:
    """Noise that is drawn anew knows nothing of what is slower than it, and the losses' own disagreement does."""
    return Between(math.exp(apart), max(drawn, scatter), LEVELS - 1 if scatter > drawn else math.inf)


def reached(pair: Pair) -> Reached | Reason:
    """Where both sides come down to the same losses, or why there are none."""
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
    seeds = pair.over_seeds([[geometric_mean(places) for places in side] for side in common.places])
    if seeds is not None:
        ratio, decides = unsure_by(common.left_open, seeds.ratio), seeds.decides
    else:
        ratio, decides = common.by_chance(), one_start(pair)
    losses = float(common.losses[0]), float(common.losses[-1])
    values = {"losses": losses, "axis": pair.axis, "seeds": seeds, "common": not common.off}
    return judged(NAME, COMPARED, ratio, MARGIN, values, None if decides else OBSERVED)


def calmed(loss: Floats) -> Floats:
    """Without what stands apart from its neighbours (Hampel's filter): one spike bends the whole of a falling curve."""
    padded = np.pad(loss, _NEIGHBOURS, mode="reflect")
    usual, spread = around_median(np.lib.stride_tricks.sliding_window_view(padded, 2 * _NEIGHBOURS + 1))
    return np.where(np.abs(loss - usual) > _APART * spread, usual, loss)


def smoothed(loss: Floats) -> Floats:
    """The falling curve nearest to it (isotonic regression)."""
    from scipy.optimize import isotonic_regression

    falling: Floats = isotonic_regression(loss, increasing=False).x
    return falling


def _common_losses(lines: list[Line], begin: float) -> Floats | None:
    """Losses that every curve passes after it warmed up, evenly apart, the highest first."""
    highest = min(float(np.interp(begin, line.seen, line.smooth)) for line in lines)
    lowest = max(float(line.smooth[-1]) for line in lines)
    return np.linspace(highest, lowest, LEVELS + 2)[1:-1] if highest > lowest else None


def reach(seen: Floats, smooth: Floats, losses: Floats) -> Floats:
    """Where a smoothed curve first comes down to each loss."""
    rows = np.searchsorted(-smooth, -losses, side="left").clip(1, len(smooth) - 1)
    above, below = smooth[rows - 1], smooth[rows]
    share = np.divide(above - losses, above - below, out=np.ones_like(losses), where=above > below).clip(0, 1)
    places: Floats = seen[rows - 1] + share * (seen[rows] - seen[rows - 1])
    return places


def _noise(line: Line) -> float:
    """Of a smoothed loss: that of a few neighbours together, by the median deviation, which few outliers move."""
    return float(around_median(line.loss - line.smooth)[1]) / math.sqrt(10)


def running_mean(loss: Floats) -> Floats:
    """What noise is told from: a falling curve would have taken its slow part for learning."""
    width = 2 * (min(_AROUND, len(loss)) // 2) + 1
    return np.convolve(np.pad(loss, width // 2, mode="reflect"), np.full(width, 1 / width), mode="valid")


def _width(noise: Floats) -> int:
    """Of blocks that keep neighbours as alike as they are (Carlstein, Annals of Statistics 14, 1986)."""
    x = noise - noise.mean()
    power = float(x @ x)
    likeness = min(max(float(x[1:] @ x[:-1]) / power, 0.0), _MOST_ALIKE) if power else 0.0
    growth = max(1.0, math.pow(2 * likeness / (1 - likeness**2), 2 / 3))
    return max(1, round(growth * math.cbrt(len(noise))))


def _blocks(chance: np.random.Generator, n: int, width: int) -> Whole:
    """So many places, in stretches of neighbours."""
    starts = chance.integers(0, n - width + 1, size=-(-n // width))
    return (starts[:, None] + np.arange(width)).ravel()[:n]
