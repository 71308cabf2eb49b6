"""How a loss goes: where it begins and ends, and whether it rests there."""

import math
from dataclasses import dataclass

import numpy as np

from steelyard.accounting.arrays import Floats, Whole, around_median
from steelyard.accounting.vocabularies import NEAR

FEWEST = 3
_TAIL = 10
_MANY = 2 * _TAIL
_FLAT = 0.05
"""Of the whole fall: what a plateau may still move from the third quarter of a run to the last."""


@dataclass(frozen=True, slots=True)
class Course:
    """How a loss goes from its first record to its last."""

    first: float
    end: float
    """The median of the last ten records, or the last of a few."""
    mean: float
    """Over the last quarter: where little is left to learn, most batches have less of it than the mean."""
    still_falls: bool
    level: float
    """The median over the last quarter of the steps."""
    settled: bool
    """Whether that is a plateau."""


def course(step: Whole, loss: Floats) -> Course:
    """How some losses go, told at some steps."""
    tail = 1 if len(loss) < _MANY else _TAIL
    end, before = float(np.median(loss[-tail:])), float(np.median(loss[-2 * tail : -tail]))
    mean = float(loss[-max(1, len(loss) // 4) :].mean()) if len(loss) >= _MANY else float(loss[-1])
    third, last = (loss[(step >= _at(step, share)) & (step < _at(step, share + 0.25))] for share in (0.5, 0.75))
    last = np.append(last, loss[-1:])
    level = float(np.median(last))
    settled = False
    if len(third):
        scatter = max(float(around_median(part)[1]) for part in (third, last))
        chance = 3 * 1.25 * scatter * math.sqrt(1 / len(third) + 1 / len(last))  # a median's error is 1.25 of a mean's
        moved = abs(float(np.median(third)) - level)
        settled = moved <= max(_FLAT * (float(loss[0]) - level), chance if len(loss) >= _MANY else 0.0, NEAR)
    return Course(float(loss[0]), end, mean, before - end > 0.01 * before, level, settled)


def _at(step: Whole, share: float) -> float:
    return float(step[0] + share * (step[-1] - step[0]))
