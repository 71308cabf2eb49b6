"""Which errors in a log ended its run, and which had no effect on it."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from steelyard.records.step import Event, Evidence

FAILURES = ("oom", "xid", "ecc", "gpu_hang", "nan_abort", "nccl", "xla", "crash", "error", "exit", "fatal", "node_lost")
"""Kinds of events that end a run, or should."""
RESTARTS = ("resumed", "restart")
SAVES = ("checkpoint", "checkpoint_saved")
_EXCEPTIONS = ("error", "oom", "crash")
OF_HARDWARE = ("xid", "ecc", "gpu_hang")
"""Those of faulty hardware, which matter even if the run continues."""


def first_cause(failures: Iterable[Event], logs: Collection[str] = ()) -> Event | None:
    """The first failure of the lowest order: causes come before their consequences.

    `logs` are the files with the steps. In another file, an exception may be older than the first step, so a
    scheduler's reason is nearer to the end.
    """

    def order(event: Event) -> float:
        known = event.whole("order") or 0
        elsewhere = bool(logs) and event.source is not None and event.source.file not in logs
        return _AFTER_SCHEDULER if elsewhere and event.kind == "error" and not known else known

    return min(failures, key=order, default=None)


_AFTER_SCHEDULER = 1.5


@dataclass(frozen=True, slots=True)
class Failures:
    """The failures in the logs of one run."""

    cause: Event | None
    """Why the run ended; None if it finished, or if no log contains the reason."""
    survived: tuple[Event, ...]
    """Errors that did not end the run."""


@dataclass(frozen=True, slots=True)
class Course:
    """What is known of how a run went."""

    finished: bool
    """Whether it printed its end marker after its last step."""
    last_step: int
    interval: float
    """Steps between two records."""
    logs: Mapping[str, int]
    """The files that contain its steps, each with the line of the first."""
    final_save: Evidence | None = None
    """Where it began a checkpoint after its end marker, if the log does not show that it was saved."""


_RECORDS_LATER = 64
"""Records that a failed program may still seem to print: its standard output waits in a buffer, its errors do not."""


def final_save(events: Iterable[Event]) -> Evidence | None:
    """Where a checkpoint began after the last end marker, if the log does not show that it was saved."""
    ended, save = False, None
    for event in events:
        if event.kind == "finished":
            ended, save = True, None
        elif event.kind in SAVES:
            save = event.source if ended and event.kind == "checkpoint" else None
    return save


def sort_failures(failures: Sequence[Event], restarts: Iterable[Event], course: Course) -> Failures:
    """Tell the error that ended a run from those that it survived.

    A run that printed its end marker survived all of them, except an exception in its final checkpoint. Otherwise an
    error did not end the run if its first step, a restart or many more steps come after it in the same file.
    """
    again = [event.source for event in restarts if event.source is not None]
    survived = [event for event in failures if _survived(event, again, course)]
    left = (event for event in failures if event not in survived)
    return Failures(first_cause(left, course.logs), tuple(survived))


def _survived(event: Event, restarts: Sequence[Evidence], course: Course) -> bool:
    at = event.source
    if at is None:
        return False
    if course.finished:
        save = course.final_save
        in_save = save is not None and at.file == save.file and at.line > save.line
        return not (in_save and event.kind in _EXCEPTIONS and not event.whole("order"))
    if at.file not in course.logs:
        return False
    if any(again.file == at.file and again.line > at.line for again in restarts):
        return True
    if at.line < course.logs[at.file]:
        return True
    return event.step is not None and course.last_step - event.step > _RECORDS_LATER * course.interval
