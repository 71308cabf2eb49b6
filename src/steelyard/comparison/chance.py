"""What chance explains: the spread of seeds where few are recorded, and the noise of non-deterministic kernels."""

import math
from collections.abc import Sequence

import numpy as np

from steelyard.comparison.curve import LossCurve
from steelyard.comparison.intervals import quantile
from steelyard.records.columns import Floats

LEVEL_SPREAD = 0.01
"""Assumed deviation between seeds of the logarithm of a level. Observed: 0.02% (17 seeds of a GPT-2 medium speedrun),
0.1 to 0.2% (95% of 101 public pairs of one job on two kinds of GPU, 50 to 100 steps), 0.8% (small models)."""
SPEED_SPREAD = 0.03
"""The same for the tokens to a loss, at least; where the loss falls slowly, that of the level counts for more."""
_LEVEL = 0.95
_STEPS_LEVEL = 0.99
"""Of all steps together; with 0.95, one identical job in twenty would fail by its kernels alone."""


def by_seeds(spread: float, seeds: Sequence[int]) -> float:
    """Share of a ratio of two sides that seeds of this spread explain, with so many known seeds per side."""
    error = spread * math.sqrt(sum(1 / max(count, 1) for count in seeds))
    return math.expm1(quantile(math.inf, 0.5 + _LEVEL / 2) * error)


def noise_floor(sides: Sequence[Sequence[LossCurve]] | None, steps: int) -> tuple[Floats, Floats] | None:
    """The difference of two sides at each record of the first steps, and what repeats of one seed explain of it.

    Both in logarithms, the second by Student's t with the pooled deviation of the repeats, for all records together.
    None if no side has repeats, or the records are of different steps.
    """
    if sides is None:
        return None
    first = sides[0][0].step[sides[0][0].step <= steps]
    early = [[curve.at_rows(np.flatnonzero(curve.step <= steps)) for curve in side] for side in sides]
    freedom = sum(len(side) - 1 for side in sides)
    if not freedom or any(not np.array_equal(curve.step, first) for side in early for curve in side):
        return None
    logs = [np.log([curve.loss for curve in side]) for side in early]
    squares = sum(((side - side.mean(axis=0)) ** 2).sum(axis=0) for side in logs)
    error = np.sqrt(squares / freedom * sum(1 / len(side) for side in logs))
    share = 1 - (1 - _STEPS_LEVEL) / (2 * len(first))
    return logs[0].mean(axis=0) - logs[1].mean(axis=0), quantile(freedom, share) * error
