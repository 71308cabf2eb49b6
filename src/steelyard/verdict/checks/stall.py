"""No step took much longer than usual."""

import numpy as np

from steelyard.accounting.arrays import chosen, row_of
from steelyard.reasons import Code
from steelyard.verdict.finding import Check, Results
from steelyard.verdict.subject import Subject

CHECK = Check("stall")
NO_STALL = Code(
    "no_stall",
    lambda observed, usual, **_: (
        f"slowest steady step took {max(observed, 0.0):,.3g} s longer than the median of {usual:,.3g} s"
    ),
)
"""No step took much longer than usual."""
SLOW_STEP = Code("slow_step", "step {step:,} took {observed:,.0f} s longer than the median of {usual:,.3g} s")
"""One step took much longer than usual."""
RUN_STALLED = Code("run_stalled", "run stalled: {text}")
"""The run made no progress for a long time."""
TOO_FEW_TIMES_FOR_STALL = Code("too_few_times_for_stall", "too few timed steps to detect a stall")
"""The record has too few timed steps to detect a stall."""
_MEDIANS = 10
_FEWEST = 10
_SHORTEST_S = 30.0


def check(subject: Subject) -> Results:
    stalls = subject.events_of("stall")
    if stalls:
        yield CHECK.failed(RUN_STALLED, len(stalls), 0, stalls[0].source, text=stalls[0].message)
        return
    steps, window = subject.steps, subject.figures.window
    if window.mask.sum() < _FEWEST:
        yield CHECK.unknown(TOO_FEW_TIMES_FOR_STALL, None, 0)
        return
    times = chosen(steps.step_time_s.values, window.mask)
    usual = float(np.median(times))
    lost = times - usual
    lost *= chosen(steps.steps_covered, window.mask)
    worst = int(np.argmax(lost))
    bound = max(_SHORTEST_S, _MEDIANS * usual)
    if lost[worst] > bound:
        at = subject.at(row_of(window.mask, worst))
        clocked = steps.flag("clocked").any()  # the time between two log lines also contains pauses, such as a save
        finding = CHECK.unknown if clocked else CHECK.failed
        yield finding(SLOW_STEP, float(lost[worst]), f"<= {bound:.3g}", usual=usual, **at)
    else:
        yield CHECK.passed(NO_STALL, float(lost[worst]), f"<= {bound:.3g}", usual=usual)
