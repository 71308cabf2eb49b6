"""Few optimizer steps were skipped, and not the last ones: a loss scaler skips some at first, then settles."""

from collections.abc import Iterator

import numpy as np

from steelyard.verdict.finding import Check, Found
from steelyard.verdict.subject import Subject

CHECK = Check("skipped_steps")
_SHARE = 0.1
_AT_LAST = 5


def check(subject: Subject) -> Iterator[Found]:
    skipped = subject.steps.flag("skipped")
    rows = np.flatnonzero(skipped)
    if not len(rows):
        yield CHECK.unknown("no step says whether it was skipped", None, 0)
        return
    message = (
        f"{len(rows):,} of {len(skipped):,} steps were skipped, the last of them step {subject.steps.step[rows[-1]]}"
    )
    few = len(rows) <= _SHARE * len(skipped) and not skipped[-_AT_LAST:].all()
    bound = f"<= {_SHARE:.0%} of the steps, and not the last {_AT_LAST}"
    yield CHECK.judged(few, message, len(rows), bound, subject.evidence_of_step(int(rows[-1])))
