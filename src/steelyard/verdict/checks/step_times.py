"""Step times are stable enough for one rate to describe them."""

import numpy as np

from steelyard.accounting.arrays import Floats, chosen
from steelyard.accounting.steady import MIN_STEADY_STEPS
from steelyard.reasons import Code
from steelyard.verdict.finding import Check, Results
from steelyard.verdict.subject import Subject

CHECK = Check("step_times")
_LOW, _HIGH = 10, 90
_MOST = 3.0
"""Ratio of the percentiles. Public logs of healthy runs stay below 1.5, small runs on shared cores below 2.8."""

STEP_TIMES_STABLE = Code(
    "step_times_stable", "slow steady steps take {observed:.3g} times as long as fast ones (90th and 10th percentile)"
)
"""The steady steps take similar times for the same number of tokens."""
STEP_TIMES_UNSTABLE = Code(
    "step_times_unstable",
    "slow steady steps take {observed:.3g} times as long as fast ones (90th and 10th percentile), so no rate describes "
    "the run; look for other jobs on the hosts, slow storage or throttling, then repeat it",
)
"""The times of steady steps swing by a factor of three or more for the same number of tokens."""
TOO_FEW_STEP_TIMES = Code(
    "too_few_step_times", "too few steady steps to judge their spread: {records}, at least {fewest}"
)
"""The run has too few steady records with a step time."""


def check(subject: Subject) -> Results:
    window = subject.figures.window.mask
    paces = chosen(_paces(subject), window)
    if len(paces) < MIN_STEADY_STEPS or not (np.isfinite(paces) & (paces > 0)).all():
        yield CHECK.not_applicable(TOO_FEW_STEP_TIMES, records=len(paces), fewest=MIN_STEADY_STEPS)
        return
    low, high = (float(np.percentile(paces, share)) for share in (_LOW, _HIGH))
    given = high / low, f"< {_MOST:g}", subject.evidence_of_step(int(np.argmax(window)))
    yield CHECK.passed(STEP_TIMES_STABLE, *given) if high < _MOST * low else CHECK.unknown(STEP_TIMES_UNSTABLE, *given)


def _paces(subject: Subject) -> Floats:
    """Seconds per token: steps of more tokens take longer. Else seconds per step, or the inverse of reported rates."""
    window, steps = subject.figures.window.mask, subject.steps
    with np.errstate(all="ignore"):
        if np.isfinite(chosen(subject.step_rates, window)).all():
            return 1 / subject.step_rates
        if steps.step_time_s.finite[window].all():
            return steps.step_time_s.values
        return 1 / steps.reported_tokens_per_s_per_gpu.values
