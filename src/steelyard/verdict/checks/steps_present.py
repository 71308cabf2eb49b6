"""No step is missing from the record, by the log's own interval."""

from collections.abc import Iterator

import numpy as np

from steelyard.records.columns import Whole
from steelyard.verdict.finding import Check, Found
from steelyard.verdict.subject import Subject

CHECK = Check("steps_present", required=True)


def check(subject: Subject) -> Iterator[Found]:
    steps, covered = subject.steps.step, subject.steps.steps_covered
    unread = next((event for event in subject.events if event.kind == "unread_line"), None)
    if not len(steps):
        yield CHECK.failed("no step was recorded", 0, subject.planned_steps, subject.evidence_of_manifest("status"))
        return
    apart = np.diff(steps)
    interval = _most_common(apart[apart > 0], int(covered[0]))
    expected = "every step" if interval == 1 else f"every {interval} steps"
    gaps = np.flatnonzero((apart > interval) & (apart > covered[1:])) + 1
    back = np.flatnonzero(apart <= 0) + 1
    if len(gaps):
        row = int(gaps[0])
        missing = f"steps {steps[row - 1] + 1} to {steps[row] - 1} are missing"
        more = f", and {len(gaps) - 1} more gaps" if len(gaps) > 1 else ""
        yield CHECK.failed(f"{missing}{more}", f"{len(gaps)} gaps", expected, subject.evidence_of_step(row))
    elif unread is not None:
        yield CHECK.unknown(f"a step line could not be read: {unread.message}", None, expected, unread.source)
    elif len(back):
        row = int(back[0])
        message = f"step {steps[row]} comes after step {steps[row - 1]}: a restart, or two logs in one"
        yield CHECK.unknown(message, None, expected, subject.evidence_of_step(row))
    elif steps[0] > max(interval, int(covered[0])):
        message = f"the record starts at step {steps[0]}; what came before is not known"
        yield CHECK.unknown(message, int(steps[0]), expected, subject.evidence_of_step(0))
    else:
        message = f"{len(steps):,} records, {expected}, none missing"
        yield CHECK.passed(message, len(steps), expected, subject.evidence_of_step(-1))


def _most_common(apart: Whole, otherwise: int) -> int:
    distances, counts = np.unique(apart, return_counts=True)
    return int(distances[np.argmax(counts)]) if len(distances) else otherwise
