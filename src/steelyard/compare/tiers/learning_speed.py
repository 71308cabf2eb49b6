"""The speed of learning: tokens to reach a loss, target over baseline, at several losses that both reach.

The level alone misses a run that learns 30 % slower: its loss ends 1.2 % higher.
"""

import math
from dataclasses import dataclass

import numpy as np

from steelyard.compare.between_runs import Between, between
from steelyard.compare.tiers.level import judged
from steelyard.compare.tiers.tier import Answer, Pair, Tier
from steelyard.records.columns import Floats

NAME = "learning_speed"
MARGIN = 0.02
LEVELS = 7
_FROM = 0.1
"""Losses of the first tenth are the warm-up's."""
_DRAWS = 200
_FEWEST_POINTS = 30
_LEARNT = 6.0
"""Times its own noise a loss must fall, or there is nothing whose speed could be told."""


@dataclass(frozen=True, slots=True)
class Reached:
    """Where every run of both sides comes down to the same losses."""

    losses: Floats
    """The highest first."""
    places: list[list[Floats]]
    """Of each side's runs."""
    points: list[list[tuple[Floats, Floats]]]
    smooth: list[list[Floats]]

    def by_chance(self) -> Between:
        """Target over baseline, with the spread it has where blocks of each curve's own noise are drawn anew."""
        chance = np.random.default_rng(0)
        means = [float(np.mean([np.log(one) for one in side])) for side in self.places]
        drawn = np.array([self._drawn(chance, 0) - self._drawn(chance, 1) for _ in range(_DRAWS)])
        return Between(math.exp(means[0] - means[1]), float(drawn.std(ddof=1)), math.inf)

    def _drawn(self, chance: np.random.Generator, side: int) -> float:
        again = [
            np.log(reach(seen, smoothed(line + _blocks(chance, loss - line)), self.losses))
            for (seen, loss), line in zip(self.points[side], self.smooth[side], strict=True)
        ]
        return float(np.mean(again))


def reached(pair: Pair) -> Reached | str:
    """Where both sides come down to the same losses, or why there are none."""
    curves = [[curve.between(0, pair.end) for curve in side] for side in pair.curves]
    if min(len(curve) for side in curves for curve in side) < _FEWEST_POINTS:
        return f"fewer than {_FEWEST_POINTS} losses where both sides are"
    points = [[curve.thinned() for curve in side] for side in curves]
    smooth = [[smoothed(loss) for _, loss in side] for side in points]
    flat = [
        (seen, loss, line)
        for side, lines in zip(points, smooth, strict=True)
        for (seen, loss), line in zip(side, lines, strict=True)
    ]
    losses = common_losses([(seen, line) for seen, _, line in flat], pair.end)
    noise = max(_noise(loss, line) for _, loss, line in flat)
    if losses is None or losses[0] - losses[-1] < _LEARNT * noise:
        return "the losses hardly fall where both sides are"
    places = [
        [reach(seen, line, losses) for (seen, _), line in zip(side, lines, strict=True)]
        for side, lines in zip(points, smooth, strict=True)
    ]
    return Reached(losses, places, points, smooth)


def ask(pair: Pair) -> Tier:
    found = reached(pair)
    if isinstance(found, str):
        few = found.startswith("fewer")
        status = Answer.UNKNOWN if few else Answer.NOT_APPLICABLE
        return Tier(NAME, status, f"{found}: no speed of learning can be told", margin=MARGIN)
    counts = [len(side) for side in found.places]
    means = [[math.exp(float(np.log(one).mean())) for one in side] for side in found.places]
    ratio, basis = between(means[0], means[1]), f"between {counts[0]} and {counts[1]} runs"
    if ratio is None:
        ratio, basis = found.by_chance(), "within these runs"
    first, last, unit = found.losses[0], found.losses[-1], pair.curves[0][0].axis
    told = f"to {LEVELS} losses from {first:.4g} to {last:.4g} the target takes {{}} times the {unit}, {basis}"
    return judged(NAME, ratio, MARGIN, told)


def smoothed(loss: Floats) -> Floats:
    """The falling curve nearest to it (isotonic regression)."""
    from scipy.optimize import isotonic_regression

    found: Floats = isotonic_regression(loss, increasing=False).x
    return found


def common_losses(curves: list[tuple[Floats, Floats]], end: float) -> Floats | None:
    """Losses that every curve passes after its first tenth, evenly apart, the highest first."""
    highest = min(float(np.interp(_FROM * end, seen, loss)) for seen, loss in curves)
    lowest = max(float(loss[-1]) for _, loss in curves)
    if not highest > lowest:
        return None
    return np.linspace(highest, lowest, LEVELS + 2)[1:-1]


def reach(seen: Floats, smooth: Floats, losses: Floats) -> Floats:
    """Where a smoothed curve first comes down to each loss."""
    rows = np.searchsorted(-smooth, -losses, side="left").clip(1, len(smooth) - 1)
    above, below = smooth[rows - 1], smooth[rows]
    share = np.divide(above - losses, above - below, out=np.ones_like(losses), where=above > below).clip(0, 1)
    found: Floats = seen[rows - 1] + share * (seen[rows] - seen[rows - 1])
    return found


def _noise(loss: Floats, smooth: Floats) -> float:
    """Of a smoothed loss: that of a few neighbours together."""
    return float(np.std(loss - smooth)) / math.sqrt(10)


def _blocks(chance: np.random.Generator, noise: Floats) -> Floats:
    """A noise of the same kind: stretches of it, so that neighbours stay as alike as they were."""
    n = len(noise)
    width = max(1, round(n ** (1 / 3)))
    starts = chance.integers(0, n - width + 1, size=-(-n // width))
    rows = (starts[:, None] + np.arange(width)).ravel()[:n]
    found: Floats = noise[rows]
    return found
