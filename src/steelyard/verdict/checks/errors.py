"""The log names no error."""

from collections import Counter
from collections.abc import Iterator

from steelyard.records.step import FAILURES
from steelyard.verdict.finding import Check, Found
from steelyard.verdict.subject import Subject

CHECK = Check("errors")


def check(subject: Subject) -> Iterator[Found]:
    found, cause = subject.events_of(*FAILURES), subject.cause()
    if cause is not None:
        others = Counter(
            f"{event.kind}{f' on {event.node}' if event.node else ''}" for event in found if event != cause
        )
        more = f"; then {', '.join(f'{count} x {name}' for name, count in others.items())}" if others else ""
        node = f" on {cause.node}" if cause.node else ""
        after = "; it was started again, and completed" if subject.outlived else ""
        yield CHECK.failed(f"{cause.kind}{node}: {cause.message}{more}{after}", len(found), 0, cause.source)
    elif not subject.events and subject.run.manifest.ingested is None:
        yield CHECK.unknown("no event of the run was recorded", None, 0)
    else:
        yield CHECK.passed("the log names no error", 0, 0)
