"""Few optimizer steps were skipped, and not the last ones: a loss scaler skips only some of the first steps."""

import numpy as np

from steelyard.reasons import Code
from steelyard.verdict.finding import Check, Results
from steelyard.verdict.subject import Subject

CHECK = Check("skipped_steps")
_SKIPPED = "{observed:,} of {steps:,} steps skipped, last at step {last}"
NO_SKIPPED_STEPS = Code("no_skipped_steps", "none of {steps:,} steps skipped")
"""The optimizer skipped no step."""
FEW_SKIPPED_STEPS = Code("few_skipped_steps", _SKIPPED)
"""The optimizer skipped few steps, as a loss scaler does at the start."""
MANY_SKIPPED_STEPS = Code("many_skipped_steps", _SKIPPED)
"""The optimizer skipped too many steps, or the last ones."""
SKIPPED_STEPS_NOT_RECORDED = Code("skipped_steps_not_recorded", "skipped steps not recorded")
"""The record does not show which steps were skipped."""
_SHARE = 0.1
_SEARCH = 32
"""A loss scaler starts at up to 2**32 and halves at each overflow, so up to 32 of the first steps may be skipped."""
_AT_LAST = 5


def check(subject: Subject) -> Results:
    steps = subject.steps
    flagged, counted = steps.flag("skipped"), steps.skipped
    if not counted.given.any() and not flagged.any():
        yield CHECK.unknown(SKIPPED_STEPS_NOT_RECORDED, None, 0)
        return
    skipped = np.where(counted.given, counted.values, np.where(flagged, steps.steps_covered, 0))
    rows = np.flatnonzero(skipped > 0)
    total, number = int(steps.steps_covered.sum()), int(skipped.sum())
    if not len(rows):
        yield CHECK.passed(NO_SKIPPED_STEPS, 0, 0, subject.evidence_of_step(-1), steps=total)
        return
    whole = skipped >= steps.steps_covered
    taken = np.flatnonzero(skipped == 0)
    search = min(_SEARCH, int(skipped[: taken[0] if len(taken) else None].sum()))
    few = number - search <= _SHARE * total and not whole[-_AT_LAST:].all()
    bound = f"<= {_SHARE:.0%} of the steps, without the first {_SEARCH}, and not all of the last {_AT_LAST} records"
    at, last = subject.evidence_of_step(int(rows[-1])), int(steps.step[rows[-1]])
    yield CHECK.judged(few, (FEW_SKIPPED_STEPS, MANY_SKIPPED_STEPS), number, bound, at, steps=total, last=last)
