"""The first ten steps on the same weights and data: so early, only arithmetic can make two runs differ."""

from collections.abc import Callable, Iterator

import numpy as np

from steelyard.comparison.chance import noise_floor
from steelyard.comparison.curve import differences
from steelyard.comparison.phrases import percent, plain_percent
from steelyard.comparison.starts import DETERMINISTIC
from steelyard.comparison.tiers import Answer, Pair, Tier
from steelyard.reasons import Code, Reason
from steelyard.records.columns import Floats, Whole

NAME = "first_steps"
STEPS = 10
MARGIN = 1e-3
SAME_START = 1e-4
"""First losses so close are those of equal weights: of 101 public pairs with other weights of one seed, none is, with
ten steps within the margin."""
PASSED = (1e-3, 1e-2)
"""Differences whose first step is reported."""


def _compared(worst: float, margin: float, passed: list[tuple[float, int]]) -> str:
    steps = " and ".join(f"{plain_percent(share)} at step {step:,}" for share, step in passed)
    limit = f"{'within' if worst <= margin else 'more than'} {plain_percent(margin)}"
    exceeded = f"; they first exceed {steps}" if steps else ""
    return f"losses differ by at most {percent(worst, decimals=4)} in the first {STEPS} steps, {limit}{exceeded}"


def _because(cause: str) -> Callable[..., str]:
    return lambda doubt=None, **values: f"{_compared(**values)}; {cause.format(doubt=doubt and doubt.message)}"


COMPARED = Code("first_steps_compared", _compared)
"""The difference of the losses in the first steps, for runs with one start."""
IN_DOUBT = Code("first_steps_in_doubt", _because("this does not count, because {doubt}"))
"""The first losses differ, for runs that may start from other weights or data."""
KERNELS_UNKNOWN = Code(
    "first_steps_kernels_unknown",
    _because("this does not count, because kernels may not be deterministic and no run is repeated"),
)
"""The first losses differ, and kernels that are not deterministic may explain it; no seed is repeated to tell."""
NOISE_FLOOR = Code("first_steps_noise_floor", _because("the margin is the noise of the repeats of one seed"))
"""The difference of the first losses, with the noise of repeats of one seed as its margin."""
NOT_RECORDED = Code("first_steps_not_recorded", "both sides do not have records of all of the first {steps} steps")
"""Both sides do not have records of all the first steps."""


def ask(pair: Pair) -> Tier:
    """Fail only where the curves must be equal: the same weights and data, and kernels whose noise is known."""
    if pair.unmatched is not None:
        return Tier(NAME, Answer.NOT_APPLICABLE, pair.unmatched)
    apart = [(step, np.abs(difference)) for step, difference in (differences(*curves) for curves in pair.matched)]
    for (target, _), (step, _) in zip(pair.matched, apart, strict=True):
        if target.covered[np.searchsorted(target.step, step[step <= STEPS])].sum() < STEPS:
            return Tier(NAME, Answer.NOT_APPLICABLE, Reason(NOT_RECORDED, {"steps": STEPS}))
    margin = max(MARGIN, pair.rounding())
    worst = max(float(difference[step <= STEPS].max()) for step, difference in apart)
    values = {"worst": worst, "margin": margin, "passed": list(_passed(apart))}
    start = max(float(difference[0]) for _, difference in apart)
    if worst <= margin and (pair.doubt is None or start <= max(SAME_START, pair.rounding())):
        return Tier(NAME, Answer.PASS, Reason(COMPARED, values), worst, margin)
    if pair.doubt is not None:
        doubted = Reason(IN_DOUBT, {**values, "doubt": pair.doubt}, keys=pair.doubt.keys)
        return Tier(NAME, Answer.NOT_APPLICABLE, doubted, worst, margin)
    if pair.deterministic:
        return Tier(NAME, Answer.FAIL, Reason(COMPARED, values), worst, margin)
    floor = noise_floor(pair.repeated, STEPS)
    if floor is None:
        kernels = Reason(KERNELS_UNKNOWN, values, keys=(DETERMINISTIC,))
        return Tier(NAME, Answer.NOT_APPLICABLE, kernels, worst, margin)
    difference, noise = np.abs(floor[0]), np.maximum(floor[1], margin)
    at = int(np.argmax(difference / noise))
    worst, margin = float(difference[at]), float(noise[at])
    status = Answer.PASS if worst <= margin else Answer.FAIL
    repeats = Reason(NOISE_FLOOR, {**values, "worst": worst, "margin": margin})
    return Tier(NAME, status, repeats, worst, margin)


def one_start(pair: Pair) -> bool:
    """Whether runs of both sides start alike, as their first steps show, so that seeds do not explain the rest."""
    return ask(pair).status == Answer.PASS


def _passed(apart: list[tuple[Whole, Floats]]) -> Iterator[tuple[float, int]]:
    """Differences, each with the first step at which a pair of runs exceeds it."""
    for share in PASSED:
        if beyond := [steps[0] for step, difference in apart if len(steps := step[difference > share])]:
            yield share, int(min(beyond))
