"""The log names no error."""

from collections.abc import Iterator

from steelyard.records.step import FAILURES
from steelyard.verdict.finding import Check, Found
from steelyard.verdict.subject import Subject

CHECK = Check("errors")


def check(subject: Subject) -> Iterator[Found]:
    found = subject.events_of(*FAILURES)
    if found:
        more = f", and {len(found) - 1} more" if len(found) > 1 else ""
        yield CHECK.failed(f"{found[0].kind}: {found[0].message}{more}", len(found), 0, found[0].source)
    elif not subject.events:
        yield CHECK.unknown("no event of the run was recorded", None, 0)
    else:
        yield CHECK.passed("the log names no error", 0, 0)
