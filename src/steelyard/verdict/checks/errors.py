"""The log contains no error."""

from collections import Counter
from collections.abc import Mapping

from steelyard.reasons import Code
from steelyard.records import Event
from steelyard.records.failures import FAILURES, OF_HARDWARE, first_cause
from steelyard.verdict.finding import Check, Results
from steelyard.verdict.subject import Subject

CHECK = Check("errors")


def _name(event: Event) -> str:
    return f"{event.kind} on {event.node}" if event.node else event.kind


def _sentence(cause: Event, others: Mapping[str, int], **_: object) -> str:
    more = f"; then {', '.join(f'{count} x {name}' for name, count in others.items())}" if others else ""
    return f"{_name(cause)}: {cause.message}{more}"


def _of_survived(cause: Event, others: Mapping[str, int], restarted: bool, **_: object) -> str:
    return f"{_sentence(cause, others)}; the run {'restarted from a checkpoint' if restarted else 'continued'}"


ERROR_IN_LOG = Code("error_in_log", _sentence)
"""The log contains at least one error; the first cause is shown."""
ERRORS_SURVIVED = Code("errors_survived", _of_survived)
"""No error in the log ended the run: steps, a restart or the end marker follow it, or it comes after the end."""
HARDWARE_ERROR = Code("hardware_error", _sentence)
"""The log contains an error of the hardware, which may be faulty although the run continued."""
NO_ERROR_IN_LOG = Code("no_error_in_log", "no errors in the log")
"""The log contains no error."""
NO_EVENTS = Code("no_events", "no events recorded, so errors are unknown")
"""The run has no recorded events, so its errors are unknown."""


def check(subject: Subject) -> Results:
    failures, (cause, survived) = subject.events_of(*FAILURES), (subject.failures.cause, subject.failures.survived)
    of_hardware = next((event for event in survived if event.kind in OF_HARDWARE), None)
    if (shown := cause or of_hardware or first_cause(survived)) is not None:
        values = {"cause": shown, "others": Counter(_name(event) for event in failures if event != shown)}
        given = (len(failures), 0, shown.source)
        if cause is not None or of_hardware is not None:
            yield CHECK.failed(ERROR_IN_LOG if cause is not None else HARDWARE_ERROR, *given, **values)
        else:
            yield CHECK.passed(ERRORS_SURVIVED, *given, restarted=subject.restarted, **values)
    elif not subject.events and not subject.foreign:
        yield CHECK.unknown(NO_EVENTS, None, 0)
    else:
        yield CHECK.passed(NO_ERROR_IN_LOG, 0, 0)
