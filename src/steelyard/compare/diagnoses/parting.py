"""Where two curves of one start part, and what that looks like: rounding, another order of data, another setting."""

from collections.abc import Iterator

import numpy as np

from steelyard.compare.curve import differences
from steelyard.compare.diagnoses.diagnosis import Diagnosis
from steelyard.compare.tiers import Pair
from steelyard.records.columns import Floats, Whole

CODE = "parting"
SAME, PARTED = 1e-3, 1e-2
_FEWEST = 20
_SMOOTH = 0.6
"""Lag-1 correlation of differences: above it they drift, below they scatter."""
_MOSTLY = 0.9


def diagnose(pair: Pair) -> Iterator[Diagnosis]:
    if False in (pair.same("data.source"), pair.same("platform.framework")):
        return  # other data, or other weights, from the start
    for ours, theirs in pair.matched[:1]:
        step, apart = differences(ours, theirs)
        if len(step) < _FEWEST or step[0] != 1 or not (np.abs(apart) > SAME).any():
            continue
        yield _diagnosis(step, apart, pair.rounding())


def _diagnosis(step: Whole, apart: Floats, rounding: float) -> Diagnosis:
    first = int(step[np.abs(apart) > SAME][0])
    wide = step[np.abs(apart) > PARTED]
    varies = np.ptp(apart[1:]) > 0 and np.ptp(apart[:-1]) > 0
    smooth = float(np.corrcoef(apart[1:], apart[:-1])[0, 1]) if varies else 0.0
    side = float(np.mean(np.sign(apart) == np.sign(np.median(apart))))
    if abs(apart[0]) > max(SAME / 10, rounding):
        looks = "another order of data, or other weights: they differ from the first step on"
        confirm = "give both sides one seed of data and of weights"
    elif smooth > _SMOOTH and side > _MOSTLY:
        looks = "another setting (rate, schedule, optimizer): the difference grows smoothly and to one side"
        confirm = "compare the learning rates and the optimizer's settings of both logs"
    else:
        looks = "rounding: they start together, and the differences then scatter to both sides"
        confirm = "a run of each side with deterministic kernels, or in fp32, parts later"
    told = f", and by 1 % at step {int(wide[0]):,}" if len(wide) else ", and never by 1 %"
    return Diagnosis(
        CODE,
        "both",
        f"the curves part by 0.1 % at step {first:,}{told}: it looks like {looks}",
        (
            f"at step 1 they are {abs(apart[0]):.1e} apart, at most {np.abs(apart).max():.2g}",
            f"lag-1 correlation of the differences {smooth:.2f}; {side:.0%} of them to one side",
        ),
        confirm,
    )
