"""The log names no error."""

from collections import Counter
from collections.abc import Mapping

from steelyard.reasons import Code
from steelyard.records import Event
from steelyard.records.step import FAILURES
from steelyard.verdict.finding import Check, Results
from steelyard.verdict.subject import Subject

CHECK = Check("errors")


def _name(event: Event) -> str:
    return f"{event.kind} on {event.node}" if event.node else event.kind


def _sentence(cause: Event, others: Mapping[str, int], outlived: bool, **_: object) -> str:
    more = f"; then {', '.join(f'{count} x {name}' for name, count in others.items())}" if others else ""
    return f"{_name(cause)}: {cause.message}{more}{'; it was started again, and completed' if outlived else ''}"


ERROR_IN_LOG = Code("error_in_log", _sentence)
"""The log contains at least one error; the first cause is shown."""
NO_ERROR_IN_LOG = Code("no_error_in_log", "the log names no error")
"""The log contains no error."""
NO_EVENTS = Code("no_events", "no event of the run was recorded")
"""The run has no recorded events, so its errors are unknown."""


def check(subject: Subject) -> Results:
    failures, cause = subject.events_of(*FAILURES), subject.cause()
    if cause is not None:
        others = Counter(_name(event) for event in failures if event != cause)
        values = {"cause": cause, "others": others, "outlived": subject.outlived}
        yield CHECK.failed(ERROR_IN_LOG, len(failures), 0, cause.source, **values)
    elif not subject.events and not subject.foreign:
        yield CHECK.unknown(NO_EVENTS, None, 0)
    else:
        yield CHECK.passed(NO_ERROR_IN_LOG, 0, 0)
