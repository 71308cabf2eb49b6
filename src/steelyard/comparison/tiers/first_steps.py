"""The first ten steps on the same data: so early, only arithmetic can make two runs differ."""

from collections.abc import Callable, Iterator

import numpy as np

from steelyard.comparison.curve import differences
from steelyard.comparison.phrases import percent, plain_percent
from steelyard.comparison.tiers import CUTS, Answer, Pair, Tier
from steelyard.reasons import Code, Reason
from steelyard.records.columns import Floats, Whole

NAME = "first_steps"
STEPS = 10
MARGIN = 1e-3
PASSED = (1e-3, 1e-2)
"""Differences whose first step is reported."""


def _compared(worst: float, margin: float, passed: list[tuple[float, int]]) -> str:
    steps = " and ".join(f"{plain_percent(share)} at step {step:,}" for share, step in passed)
    limit = f"{'within' if worst <= margin else 'more than'} {plain_percent(margin)}"
    exceeded = f"; they first exceed {steps}" if steps else ""
    return f"losses differ by at most {percent(worst, decimals=4)} in the first {STEPS} steps, {limit}{exceeded}"


def _because(cause: str) -> Callable[..., str]:
    return lambda **values: f"{_compared(**values)}; {cause}"


COMPARED = Code("first_steps_compared", _compared)
"""The difference of the losses in the first steps, for runs with one start."""
SEEDS_ASSUMED = Code(
    "first_steps_seeds_assumed",
    _because("seeds are not recorded and were taken as equal; if they differ, ingest with --set training.seed=N"),
)
"""The first losses differ, for runs whose seeds are not recorded and were taken as equal."""
CUTS_UNKNOWN = Code(
    "first_steps_cuts_unknown",
    _because("tensor or pipeline parallel size is not recorded for every run; other sizes give other weights"),
)
"""The first losses differ, for runs whose parallel sizes are not recorded and may differ."""
OWN_WEIGHTS = Code(
    "first_steps_own_weights", "the frameworks differ, and each has its own initial weights and data order"
)
"""Two frameworks start from different weights and data, so their first steps cannot be compared."""
OTHER_CUTS = Code(
    "first_steps_other_cuts", "tensor or pipeline parallel sizes differ, so one seed gives different initial weights"
)
"""Runs of one seed have different parallel sizes and start from different weights."""
NO_COMMON_SEED = Code("first_steps_no_common_seed", "no seed is known to be used on both sides")
"""No run of one side is known to have the seed of a run of the other."""
NOT_RECORDED = Code("first_steps_not_recorded", "both sides do not have records of all of the first {steps} steps")
"""Both sides do not have records of all the first steps."""


def ask(pair: Pair) -> Tier:
    if pair.same("platform.framework") is False:
        return Tier(NAME, Answer.NOT_APPLICABLE, Reason(OWN_WEIGHTS, keys=("platform.framework",)))
    if not pair.matched:
        why = Reason(OTHER_CUTS, keys=CUTS) if pair.otherwise_cut else Reason(NO_COMMON_SEED, keys=("training.seed",))
        return Tier(NAME, Answer.NOT_APPLICABLE, why)
    apart = [(step, np.abs(difference)) for step, difference in (differences(*curves) for curves in pair.matched)]
    for (target, _), (step, _) in zip(pair.matched, apart, strict=True):
        if target.covered[np.searchsorted(target.step, step[step <= STEPS])].sum() < STEPS:
            return Tier(NAME, Answer.UNKNOWN, Reason(NOT_RECORDED, {"steps": STEPS}))
    margin = max(MARGIN, pair.rounding())
    worst = max(float(difference[step <= STEPS].max()) for step, difference in apart)
    values = {"worst": worst, "margin": margin, "passed": list(_passed(apart))}
    if worst <= margin:
        return Tier(NAME, Answer.PASS, Reason(COMPARED, values), worst, margin)
    if pair.maybe_otherwise_cut:
        return Tier(NAME, Answer.UNKNOWN, Reason(CUTS_UNKNOWN, values, keys=CUTS), worst, margin)
    seeds = Reason(SEEDS_ASSUMED, values, keys=("training.seed",))
    reason = seeds if pair.same("training.seed") is None else Reason(COMPARED, values)
    return Tier(NAME, Answer.FAIL, reason, worst, margin)


def one_start(pair: Pair) -> bool:
    """Whether runs of both sides start from the same weights, so that later differences are not chance."""
    return bool(pair.matched) and (not pair.maybe_otherwise_cut or ask(pair).status == Answer.PASS)


def _passed(apart: list[tuple[Whole, Floats]]) -> Iterator[tuple[float, int]]:
    """Differences, each with the first step at which a pair of runs exceeds it."""
    for share in PASSED:
        if beyond := [steps[0] for step, difference in apart if len(steps := step[difference > share])]:
            yield share, int(min(beyond))
