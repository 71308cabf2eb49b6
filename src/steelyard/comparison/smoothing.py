"""Curves of one side that were smoothed before their export, as trackers do: they lag, and hide noise and spikes.

An exponential moving average with weight s leaves (1 - s) / sqrt(1 + s) of the noise between neighbors, and makes their
changes follow each other: the correlation of one change with the next is -0.5 for raw noise, and -(1 - s) / 2 for the
average. Noise alone may differ, because one framework logs the loss of one rank and another the mean of all.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from steelyard.comparison import codes
from steelyard.comparison.curve import LossCurve, loss_curves
from steelyard.comparison.side import Side
from steelyard.comparison.tiers.learning_speed import calmed, running_mean
from steelyard.reasons import Code, Effect, Reason

_FEWEST_POINTS = 100
_LESS_NOISE = 2.5
"""Of changes between neighbors; W&B's and TensorBoard's weight of 0.6 gives 3.2."""
_FOLLOWING, _MORE, _DEVIATIONS = -0.35, 0.15, 2.0
"""Correlation of changes above which a curve looks smoothed, and by how much above that of the other side: at least so
much, and so many of its standard deviations, 1 / sqrt(records) each."""
_FALLS = 0.5
"""An average falls later than the losses, and as far. A flat loss is even, and no average."""

SMOOTHED = Code(
    "curves_smoothed",
    "the losses of {side} look smoothed: {less:.2g} times less noise than {other}, and a correlation of "
    "neighboring changes of {following:.2f} instead of {others:.2f}; export the raw values",
)
"""The losses of one side are a moving average, which lags behind the loss: the curves cannot be compared."""


@dataclass(frozen=True, slots=True)
class _Noise:
    """How much neighboring losses change, and the correlation of one change with the next."""

    size: float
    following: float
    records: int
    fall: float
    """Of the logarithm, from the first tenth to the last."""


def smoothed(sides: Sequence[Side]) -> Iterator[Reason]:
    """The reason if the curves of exactly one side look smoothed."""
    curves = loss_curves([side.subjects for side in sides])
    noises = [_noise(side) for side in curves]
    if None in noises:
        return
    target, baseline = (noise for noise in noises if noise is not None)
    at = int(baseline.size < target.size)
    less, more = ((target, baseline), (baseline, target))[at]
    more_following = max(_MORE, _DEVIATIONS * math.sqrt(1 / less.records + 1 / more.records))
    follows = less.following > max(_FOLLOWING, more.following + more_following)
    if follows and more.size > _LESS_NOISE * less.size and less.fall > _FALLS * more.fall:
        times = {"less": more.size / max(less.size, 1e-12), "following": less.following, "others": more.following}
        names = {"side": sides[at].called, "other": sides[1 - at].called}
        yield codes.because(SMOOTHED, Effect.UNKNOWN, sides[at].name, **names, **times)


def _noise(curves: Sequence[LossCurve]) -> _Noise | None:
    """The mean over the runs of a side, in their flatter last two thirds; None if they are short or have means."""
    if any(len(curve) < _FEWEST_POINTS or (curve.covered > 1).any() for curve in curves):
        return None
    changes = [np.diff(np.log(calmed(curve.loss[len(curve) // 3 :]))) for curve in curves]
    rests = [change - running_mean(change) for change in changes]
    sizes = [float(rest.std()) for rest in rests]
    following = [float((rest[1:] * rest[:-1]).mean() / max(rest.var(), 1e-30)) for rest in rests]
    tenths = [np.array_split(np.log(curve.loss), 10) for curve in curves]
    fall = float(np.mean([np.median(parts[0]) - np.median(parts[-1]) for parts in tenths]))
    return _Noise(float(np.mean(sizes)), float(np.mean(following)), sum(map(len, rests)), fall)
