"""The first ten steps on the same data: before learning itself drives two runs apart, only their arithmetic can."""

from collections.abc import Callable, Iterator

import numpy as np

from steelyard.comparison.curve import differences
from steelyard.comparison.tiers import CUTS, Answer, Pair, Tier
from steelyard.reasons import Code, Reason
from steelyard.records.columns import Floats, Whole

NAME = "first_steps"
STEPS = 10
MARGIN = 1e-3
PASSED = (1e-3, 1e-2)
"""Differences of which the first step is told."""


def _compared(worst: float, margin: float, passed: list[tuple[float, int]]) -> str:
    steps = " and ".join(f"{share:.1%} at step {step:,}" for share, step in passed)
    return (
        f"over {STEPS} steps the losses differ by at most {worst:.1e}, {'within' if worst <= margin else 'not within'} "
        f"{margin:.1e}{f'; they first pass {steps}' if steps else ''}"
    )


def _because(cause: str) -> Callable[..., str]:
    return lambda **values: f"{_compared(**values)}; {cause}"


COMPARED = Code("first_steps_compared", _compared)
"""How far the losses of the first steps are apart, of runs of one start."""
SEEDS_ASSUMED = Code(
    "first_steps_seeds_assumed",
    _because(
        "their seeds are not known and are taken for one: ingest them with --set training.seed=N where they differ"
    ),
)
"""The first losses are apart, of runs whose seeds are taken for one."""
CUTS_UNKNOWN = Code(
    "first_steps_cuts_unknown",
    _because("tensor and pipeline parallel size are not known of every run, and others give a seed other weights"),
)
"""The first losses are apart, of runs that may be cut in different ways."""
OWN_WEIGHTS = Code("first_steps_own_weights", "each framework has weights and an order of data of its own")
"""Two frameworks start from different weights and data, so their first steps say nothing."""
OTHER_CUTS = Code(
    "first_steps_other_cuts", "a seed has other weights where the tensor or pipeline parallel size is another"
)
"""Runs of one seed are cut in different ways and start from different weights."""
NO_COMMON_SEED = Code("first_steps_no_common_seed", "no run of one side is known to have the seed of one of the other")
"""No run of one side is known to have the seed of a run of the other."""
NOT_RECORDED = Code(
    "first_steps_not_recorded", "not every one of the first {steps} steps is in a record that both sides have"
)
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
    """Whether runs of the two sides start from the same weights, so that chance is no excuse for what differs later."""
    return bool(pair.matched) and (not pair.maybe_otherwise_cut or ask(pair).status == Answer.PASS)


def _passed(apart: list[tuple[Whole, Floats]]) -> Iterator[tuple[float, int]]:
    """Differences, each with the first step at which a run is further apart."""
    for share in PASSED:
        if beyond := [steps[0] for step, difference in apart if len(steps := step[difference > share])]:
            yield share, int(min(beyond))
