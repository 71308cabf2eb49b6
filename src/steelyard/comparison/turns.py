"""When the runs of both sides ran, by their timestamps, and which of them belong to one block of time."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import NamedTuple

from steelyard.comparison import codes
from steelyard.comparison.codes import because
from steelyard.comparison.side import Side
from steelyard.reasons import Effect, Reason
from steelyard.verdict import Subject

_APART = timedelta(hours=6)
"""A longer pause begins another session: a night, in which machines are used by others, cool down or are changed."""
_LARGEST_BLOCK = 4
"""Runs of a block in turns: two of each side. In a longer block a machine changes as much as between blocks."""


class Slot(NamedTuple):
    """One run of a side (0: target, 1: baseline) in time."""

    began: datetime
    ended: datetime
    side: int
    at: int
    """Its place among the runs of its side."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """The runs of both sides in the order of time, by sessions without a long pause."""

    sessions: tuple[tuple[Slot, ...], ...]

    @property
    def blocks(self) -> list[list[Slot]]:
        """Groups of runs of both sides that follow each other; empty unless every run belongs to one of several."""
        slots = [slot for session in self.sessions for slot in session]
        if any(later.began < earlier.ended for earlier, later in pairwise(slots)):
            return []  # at the same time: not in turns
        blocks = [block for session in self.sessions for block in _blocks(session)]
        return blocks if len(blocks) > 1 and all(_of_both(block) for block in blocks) else []

    @property
    def alone(self) -> int:
        """Runs in sessions without a run of the other side."""
        return sum(len(session) for session in self.sessions if not _of_both(session))

    @property
    def one_after_the_other(self) -> bool:
        """Whether all runs of one side began after those of the other had ended."""
        sides = [[slot for session in self.sessions for slot in session if slot.side == side] for side in (0, 1)]
        first, second = sorted(sides, key=lambda side: side[0].began)
        return max(slot.ended for slot in first) <= second[0].began

    def days(self, side: int) -> tuple[str, str]:
        """The first and the last day of a side."""
        days = sorted(str(slot.began.date()) for session in self.sessions for slot in session if slot.side == side)
        return days[0], days[-1]


def schedule(sides: Sequence[Side]) -> Schedule | None:
    """The order of the runs; None if a run has no timestamps, or only some have a time zone."""
    slots = [_slot(subject, at, nth) for at, side in enumerate(sides) for nth, subject in enumerate(side.subjects)]
    known = [slot for slot in slots if slot is not None]
    if len(known) < len(slots) or len({slot.began.tzinfo is None for slot in known}) > 1:
        return None
    sessions: list[list[Slot]] = []
    for slot in sorted(known):
        if not sessions or slot.began - max(before.ended for before in sessions[-1]) > _APART:
            sessions.append([])
        sessions[-1].append(slot)
    return Schedule(tuple(map(tuple, sessions)))


def period(subject: Subject) -> tuple[datetime, datetime] | None:
    """When a run began and ended; of an imported log by its own timestamps, not by when it was imported."""
    manifest = subject.run.manifest
    made, own = manifest.ingested, manifest.provenance
    begin, end = (made.first_moment, made.last_moment) if made else (own.started, own.ended)
    with suppress(ValueError, TypeError):
        began = datetime.fromisoformat(begin or "")
        return began, max(began, datetime.fromisoformat(end) if end else began)
    return None


def _slot(subject: Subject, side: int, at: int) -> Slot | None:
    known = period(subject)
    return Slot(*known, side, at) if known else None


def _blocks(session: Sequence[Slot]) -> list[list[Slot]]:
    """The shortest groups with both sides, if the session is in turns; else the session as one group."""
    blocks: list[list[Slot]] = [[]]
    for slot in session:
        if _of_both(blocks[-1]):
            blocks.append([])
        blocks[-1].append(slot)
    if len(blocks) > 1 and not _of_both(blocks[-1]):
        rest = blocks.pop()
        blocks[-1] += rest
    return blocks if all(len(block) <= _LARGEST_BLOCK for block in blocks) else [list(session)]


def _of_both(slots: Sequence[Slot]) -> bool:
    return len({slot.side for slot in slots}) > 1


def notes(schedule: Schedule | None, sides: tuple[Side, Side]) -> Iterator[Reason]:
    """Caveats for sides that did not run in turns: the ratio then includes any change of the machines in between."""
    if schedule is None:
        return
    called = tuple(side.called for side in sides)
    if alone := schedule.alone:
        runs, days = sum(len(side.subjects) for side in sides), tuple(schedule.days(side) for side in (0, 1))
        values = {"alone": alone, "runs": runs, "days": days, "called": called}
        yield because(codes.DIFFERENT_DAYS, Effect.CAVEAT, "both", **values)
    elif schedule.one_after_the_other and _may_share_hosts(sides):
        yield because(codes.NOT_IN_TURNS, Effect.CAVEAT, "both")


def _may_share_hosts(sides: Sequence[Side]) -> bool:
    """Whether a host was used by both sides; where hosts are unknown, true of several runs."""
    places = [[subject.run.manifest.hosts for subject in side.subjects] for side in sides]
    if not all(used for side in places for used in side):
        return any(len(side) > 1 for side in places)
    hosts = [{host for used in side for host in used} for side in places]
    return bool(hosts[0] & hosts[1])
