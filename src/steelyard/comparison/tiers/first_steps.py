"""The first ten steps on the same data: before learning itself drives two runs apart, only their arithmetic can."""

import numpy as np

from steelyard.comparison.curve import LossCurve, differences
from steelyard.comparison.tiers.tier import Answer, Pair, Tier
from steelyard.records.columns import Floats, Whole

NAME = "first_steps"
STEPS = 10
MARGIN = 1e-3
PASSED = (1e-3, 1e-2)
"""Differences of which the first step is told."""
_UNSTATED = (
    "; their seeds are not known and are taken for one: ingest them with --set training.seed=N where they differ"
)

_UNKNOWN_CUT = "; tensor and pipeline parallel size are not known of every run, and others give a seed other weights"


def ask(pair: Pair) -> Tier:
    if pair.same("platform.framework") is False:
        return Tier(NAME, Answer.NOT_APPLICABLE, "each framework has weights and an order of data of its own")
    if not pair.matched:
        why = "no run of one side is known to have the seed of one of the other"
        if pair.otherwise_cut:
            why = "a seed has other weights where the tensor or pipeline parallel size is another"
        return Tier(NAME, Answer.NOT_APPLICABLE, why)
    apart = [(step, np.abs(found)) for step, found in (differences(*both) for both in pair.matched)]
    if any(_recorded(ours, step) < STEPS for (ours, _), (step, _) in zip(pair.matched, apart, strict=True)):
        why = f"not every one of the first {STEPS} steps is in a record that both sides have"
        return Tier(NAME, Answer.UNKNOWN, why)
    margin = max(MARGIN, pair.rounding())
    worst = max(float(found[step <= STEPS].max()) for step, found in apart)
    close = worst <= margin
    unstated = _UNKNOWN_CUT if pair.maybe_otherwise_cut else _UNSTATED if pair.same("training.seed") is None else ""
    message = (
        f"over {STEPS} steps the losses differ by at most {worst:.1e}, "
        f"{'within' if close else 'not within'} {margin:.1e}{_passed(apart)}{'' if close else unstated}"
    )
    status = Answer.PASS if close else Answer.UNKNOWN if pair.maybe_otherwise_cut else Answer.FAIL
    return Tier(NAME, status, message, worst, margin)


def one_start(pair: Pair) -> bool:
    """Whether runs of the two sides start from the same weights, so that chance is no excuse for what differs later."""
    return bool(pair.matched) and (not pair.maybe_otherwise_cut or ask(pair).status == Answer.PASS)


def _recorded(curve: LossCurve, steps: Whole) -> int:
    """How many of the first steps stand in those of its records."""
    early = steps[steps <= STEPS]
    return int(curve.covered[np.searchsorted(curve.step, early)].sum())


def _passed(apart: list[tuple[Whole, Floats]]) -> str:
    told = []
    for share in PASSED:
        first = [int(step[found > share][0]) for step, found in apart if (found > share).any()]
        if first:
            told.append(f"{share:.1%} at step {min(first):,}")
    return f"; they first pass {' and '.join(told)}" if told else ""
