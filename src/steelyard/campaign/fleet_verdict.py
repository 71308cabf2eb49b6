"""Judges the runs of a campaign: each by itself, then all together."""

import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from steelyard.records import Run, load
from steelyard.records.fleet import Fleet, Outlier
from steelyard.verdict import Status, Subject, Verdict, judge, read_subject, save, worst

METRICS = ("tokens_per_s_per_gpu", "step_time_s", "memory_peak_gib")
LEAST_RUNS = 4
"""Of three, the MAD is the distance of the middle one to its nearer neighbour, and any third run stands out."""
MOST_Z = 3.5
LEAST_SHARE = 0.05
"""A run nearer to the median is none, however closely the others agree."""


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
    fleet: Fleet
    members: tuple[Member, ...]
    status: Status
    outliers: tuple[Outlier, ...]
    """Named; they fail nothing."""

    def updated(self) -> Fleet:
        fleet = self.fleet.refreshed([member.run for member in self.members])
        runs = [
            entry.model_copy(update={"verdict": member.verdict.status.value if member.verdict else None})
            for entry, member in zip(fleet.manifest.runs, self.members, strict=True)
        ]
        return fleet.updated(runs=runs, verdict=self.status.value, outliers=list(self.outliers))


def judge_run(directory: Path, not_saved: Callable[[Path, OSError], None]) -> Verdict:
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
    completed = {member.host: member.verdict for member in members if member.completed and member.verdict}
    status = worst(member.verdict.status if member.verdict else Status.UNKNOWN for member in members)
    unlike = list[Outlier]()
    for metric in METRICS:
        figures = {host: verdict.figures.metric(metric).value for host, verdict in completed.items()}
        unlike += outliers(metric, {host: value for host, value in figures.items() if value is not None})
    return FleetVerdict(fleet, tuple(members), status, tuple(unlike))


def outliers(metric: str, values: Mapping[str, float]) -> Iterator[Outlier]:
    """The runs that are unlike the others, by host: of completed runs of one plan, each on its steady window.

    The modified z-score of Iglewicz and Hoaglin (How to Detect and Handle Outliers, 1993) and their bound of 3.5.
    """
    if len(values) < LEAST_RUNS:
        return
    median = statistics.median(values.values())
    spread = statistics.median(abs(value - median) for value in values.values())
    for host, value in values.items():
        away = value - median
        if abs(away) <= LEAST_SHARE * abs(median) or not median:
            continue
        z = 0.6745 * away / spread if spread else None
        if z is None or abs(z) > MOST_Z:
            yield Outlier(host=host, metric=metric, value=value, median=median, share=away / median, robust_z=z)
