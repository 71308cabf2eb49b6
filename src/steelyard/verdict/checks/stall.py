"""The run did not stand still."""

from collections.abc import Iterator

import numpy as np

from steelyard.accounting.selection import chosen, row_of
from steelyard.verdict.finding import Check, Found
from steelyard.verdict.subject import Subject

CHECK = Check("stall")
_MEDIANS = 10
_FEWEST = 10
_SHORTEST_S = 30.0


def check(subject: Subject) -> Iterator[Found]:
    stalls = subject.events_of("stall")
    if stalls:
        yield CHECK.failed(f"the run stalled: {stalls[0].message}", len(stalls), 0, stalls[0].source)
        return
    steps, window = subject.steps, subject.figures.window
    if window.mask.sum() < _FEWEST:
        yield CHECK.unknown("too few timed steps to tell a stall from a slow start", None, 0)
        return
    times = chosen(steps.step_time_s.values, window.mask)
    usual = float(np.median(times))
    lost = times - usual
    lost *= chosen(steps.steps_covered, window.mask)
    worst = int(np.argmax(lost))
    bound = max(_SHORTEST_S, _MEDIANS * usual)
    if lost[worst] > bound:
        row = row_of(window.mask, worst)
        message = f"step {steps.step[row]} lost {lost[worst]:,.0f} s, where a step takes {usual:,.3g} s"
        yield CHECK.failed(message, float(lost[worst]), f"<= {bound:.3g}", subject.evidence_of_step(row))
    else:
        message = f"no steady step lost more than {max(float(lost[worst]), 0.0):,.3g} s over the usual {usual:,.3g} s"
        yield CHECK.passed(message, float(lost[worst]), f"<= {bound:.3g}")
