"""No step is missing from the record, by the log's own interval."""

from collections.abc import Iterator

import numpy as np

from steelyard.verdict.finding import Check, Found
from steelyard.verdict.subject import Subject

CHECK = Check("steps_present", required=True)


def check(subject: Subject) -> Iterator[Found]:
    steps, covered, interval = subject.steps.step, subject.steps.steps_covered, subject.log_interval
    unread = next((event for event in subject.events if event.kind == "unread_line"), None)
    if not len(steps):
        yield CHECK.failed("no step was recorded", 0, subject.planned_steps, subject.evidence_of_manifest("status"))
        return
    apart = np.diff(steps)
    expected = "every step" if interval == 1 else f"every {interval} steps"
    gaps = np.flatnonzero((apart > interval) & (apart > covered[1:])) + 1
    back = np.flatnonzero(apart <= 0) + 1
    overlaps = np.flatnonzero(covered > np.diff(steps, prepend=0))
    if len(gaps):
        row = int(gaps[0])
        missing = f"after step {steps[row - 1]} comes step {steps[row]}, in a record of {expected}"
        more = f"; {len(gaps) - 1} more gaps" if len(gaps) > 1 else ""
        yield CHECK.failed(f"{missing}{more}", f"{len(gaps)} gaps", expected, subject.evidence_of_step(row))
    elif unread is not None:
        yield CHECK.unknown(f"a step line could not be read: {unread.message}", None, expected, unread.source)
    elif len(back):
        row = int(back[0])
        message = f"step {steps[row]} comes after step {steps[row - 1]}: a restart, or two logs in one"
        yield CHECK.unknown(message, None, expected, subject.evidence_of_step(row))
    elif len(overlaps):
        row = int(overlaps[0])
        message = f"step {steps[row]} says it covers {covered[row]} steps, more than lie before it"
        yield CHECK.unknown(message, int(covered[row]), expected, subject.evidence_of_step(row))
    elif steps[0] > max(interval, int(covered[0])):
        message = f"the record starts at step {steps[0]}; what came before is not known"
        yield CHECK.unknown(message, int(steps[0]), expected, subject.evidence_of_step(0))
    else:
        message = f"{len(steps):,} records, {expected}, none missing"
        yield CHECK.passed(message, len(steps), expected, subject.evidence_of_step(-1))
