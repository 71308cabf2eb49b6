"""The first ten steps on the same data: before learning itself drives two runs apart, only their arithmetic can."""

import numpy as np

from steelyard.compare.curve import differences
from steelyard.compare.tiers.tier import Answer, Pair, Tier
from steelyard.records.columns import Floats, Whole

NAME = "first_steps"
STEPS = 10
MARGIN = 1e-3
PASSED = (1e-3, 1e-2)
"""Differences of which the first step is told."""


def ask(pair: Pair) -> Tier:
    if not pair.matched or pair.same("training.seed") is False:
        return Tier(NAME, Answer.NOT_APPLICABLE, "no run of one side has the seed of one of the other")
    if pair.same("platform.framework") is False:
        return Tier(NAME, Answer.NOT_APPLICABLE, "each framework has weights and an order of data of its own")
    apart = [(step, np.abs(found)) for step, found in (differences(*both) for both in pair.matched)]
    if any(len(step[step <= STEPS]) < STEPS for step, _ in apart):
        return Tier(NAME, Answer.UNKNOWN, f"not every one of the first {STEPS} steps is in the record by itself")
    margin = max(MARGIN, pair.rounding())
    worst = max(float(found[step <= STEPS].max()) for step, found in apart)
    close = worst <= margin
    message = (
        f"over {STEPS} steps the losses differ by at most {worst:.1e}, "
        f"{'within' if close else 'not within'} {margin:.1e}{_passed(apart)}"
    )
    return Tier(NAME, Answer.PASS if close else Answer.FAIL, message, worst, margin)


def _passed(apart: list[tuple[Whole, Floats]]) -> str:
    told = []
    for share in PASSED:
        first = [int(step[found > share][0]) for step, found in apart if (found > share).any()]
        if first:
            told.append(f"{share:.1%} at step {min(first):,}")
    return f"; they first pass {' and '.join(told)}" if told else ""
