"""Judges the runs of a campaign: each by itself, then all together."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from steelyard.campaign.outliers import outliers
from steelyard.records import Run, load
from steelyard.records.fleet import Fleet, Outlier
from steelyard.verdict import Status, Subject, Verdict, judge, read_subject, save


@dataclass(frozen=True, slots=True)
class Member:
    """One host of a fleet, its latest run and what that came to."""

    host: str
    run: Run | None
    """None where it never began."""
    verdict: Verdict | None

    @property
    def completed(self) -> bool:
        return self.run is not None and self.run.status == "completed"


@dataclass(frozen=True, slots=True)
class FleetVerdict:
    """What a fleet comes to."""

    fleet: Fleet
    members: tuple[Member, ...]
    status: Status
    outliers: tuple[Outlier, ...]
    """Named; they fail nothing."""

    def updated(self) -> Fleet:
        """The fleet with what was found of it."""
        fleet = self.fleet.refreshed([member.run for member in self.members])
        runs = [
            entry.model_copy(update={"verdict": member.verdict.status.value if member.verdict else None})
            for entry, member in zip(fleet.manifest.runs, self.members, strict=True)
        ]
        outcome = {"runs": runs, "verdict": self.status.value, "outliers": list(self.outliers)}
        return Fleet(fleet.directory, fleet.manifest.model_copy(update=outcome))


def judge_run(directory: Path, not_saved: Callable[[Path, OSError], None]) -> Verdict:
    """Judge a run that has ended, and keep the verdict with it."""
    judged = judge(read_subject(load(directory)))
    save(judged, not_saved)
    return judged


def judge_fleet(fleet: Fleet, read: Callable[[Run], Subject] = read_subject) -> FleetVerdict:
    """Every run of it, and which of those that completed stand out; `read` says by which bounds a run is judged."""
    members = []
    for entry, run in zip(fleet.manifest.runs, fleet.runs(), strict=True):
        with fleet.reading(fleet.directory / entry.directory):
            verdict = None if run is None else judge(read(run))
        members.append(Member(entry.host, run, verdict))
    completed = {
        member.host: member.verdict.figures for member in members if member.completed and member.verdict is not None
    }
    status = worst(member.verdict.status if member.verdict else Status.UNKNOWN for member in members)
    return FleetVerdict(fleet, tuple(members), status, tuple(outliers(completed)))


def worst(statuses: Iterable[Status]) -> Status:
    """One that failed fails all, one that is not known leaves all open."""
    known = set(statuses)
    return next(status for status in (Status.FAIL, Status.UNKNOWN, Status.PASS) if status in known)
