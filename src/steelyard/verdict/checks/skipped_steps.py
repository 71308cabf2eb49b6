"""Few optimizer steps were skipped, and not the last ones: a loss scaler skips some at first, then settles."""

from collections.abc import Iterator

import numpy as np

from steelyard.verdict.finding import Check, Found
from steelyard.verdict.subject import Subject

CHECK = Check("skipped_steps")
_SHARE = 0.1
_SEARCH = 32
"""A loss scaler starts at up to 2**32 and halves until nothing overflows: so many steps may go on that, at first."""
_AT_LAST = 5


def check(subject: Subject) -> Iterator[Found]:
    steps = subject.steps
    flagged, counted = steps.flag("skipped"), steps.skipped
    if not counted.given.any() and not flagged.any():
        yield CHECK.unknown("no step says whether it was skipped", None, 0)
        return
    skipped = np.where(counted.given, counted.values, np.where(flagged, steps.steps_covered, 0))
    rows = np.flatnonzero(skipped > 0)
    total, number = int(steps.steps_covered.sum()), int(skipped.sum())
    if not len(rows):
        yield CHECK.passed(f"none of {total:,} steps was skipped", 0, 0, subject.evidence_of_step(-1))
        return
    message = f"{number:,} of {total:,} steps were skipped, the last of them by step {steps.step[rows[-1]]}"
    whole = skipped >= steps.steps_covered
    taken = np.flatnonzero(skipped == 0)
    search = min(_SEARCH, int(skipped[: taken[0] if len(taken) else None].sum()))
    few = number - search <= _SHARE * total and not whole[-_AT_LAST:].all()
    bound = f"<= {_SHARE:.0%} of the steps beside {_SEARCH} at first, and not the last {_AT_LAST} records"
    yield CHECK.judged(few, message, number, bound, subject.evidence_of_step(int(rows[-1])))
