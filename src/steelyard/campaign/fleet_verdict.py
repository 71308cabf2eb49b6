"""Judges the runs of a fleet: each by itself, then all together."""

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from steelyard.accounting.stragglers import CLEARLY, CLEARLY_SIGMAS, LEAST_NODES, robust_z
from steelyard.reasons import Code
from steelyard.records import Run, load
from steelyard.records.fleet import Fleet, Outlier, reading_run
from steelyard.verdict import Status, Subject, Verdict, judge, read_subject, save, worst
from steelyard.verdict.finding import Check

METRICS = ("tokens_per_s_per_gpu", "step_time_s", "memory_peak_gib")
_SLOW_SIGN = {"tokens_per_s_per_gpu": -1, "step_time_s": 1}
"""Metrics of speed, and the sign of a slow host's difference from the median."""
LEAST_RUNS = LEAST_NODES
MOST_Z = 3.5
LEAST_SHARE = 0.05
"""A run closer to the median than this is not an outlier, however small the spread."""

CHECK = Check("slow_host")
SLOW_HOST = Code(
    "slow_host",
    lambda outlier, hosts, **_: (
        f"{outlier.words}, of {hosts} hosts; compare its clocks, power limits, memory and network with the others"
    ),
)
"""The host is over 10% and three robust standard deviations slower than the median of its fleet."""


@dataclass(frozen=True, slots=True)
class Member:
    """One host of a fleet, its latest run and its verdict."""

    host: str
    run: Run | None
    """None if it never started."""
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
    """Only clearly slow hosts fail."""

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
    """Judge every run, and find the outliers among the completed ones; `read` sets thresholds and warm-up."""
    members = []
    for entry, run in zip(fleet.manifest.runs, fleet.runs(), strict=True):
        with reading_run(fleet.directory, entry.directory):
            verdict = None if run is None else judge(read(run))
        members.append(Member(entry.host, run, verdict))
    completed = {member.host: member.verdict for member in members if member.completed and member.verdict}
    every = list[Outlier]()
    for metric in METRICS:
        figures = {host: verdict.figures.metric(metric).value for host, verdict in completed.items()}
        every += outliers(metric, {host: value for host, value in figures.items() if value is not None})
    members = [_with_slowness(member, every, len(completed)) for member in members]
    status = worst(member.verdict.status if member.verdict else Status.UNKNOWN for member in members)
    return FleetVerdict(fleet, tuple(members), status, tuple(every))


def _with_slowness(member: Member, candidates: Iterable[Outlier], hosts: int) -> Member:
    """A member with the finding that its host is clearly slow, if it is."""
    outlier = next((each for each in candidates if each.host == member.host and is_clearly_slow(each)), None)
    if outlier is None or member.verdict is None:
        return member
    finding = CHECK.failed(SLOW_HOST, outlier.value, outlier.median, outlier=outlier, hosts=hosts)
    judged = replace(member.verdict, status=Status.FAIL, findings=(*member.verdict.findings, finding))
    return replace(member, verdict=judged)


def is_slow(outlier: Outlier) -> bool:
    """Whether the host is slow: less throughput or a longer step than the others."""
    return outlier.share * _SLOW_SIGN.get(outlier.metric, 0) > 0


def is_clearly_slow(outlier: Outlier) -> bool:
    """Whether the host is so slow that it fails: a tenth and three standard deviations below the median speed."""
    speed = 1 + outlier.share if _SLOW_SIGN.get(outlier.metric, 0) < 0 else 1 / (1 + outlier.share)
    far = outlier.robust_z is None or abs(outlier.robust_z) > CLEARLY_SIGMAS
    return is_slow(outlier) and speed < 1 - CLEARLY and far


def slow_hosts(candidates: Iterable[Outlier]) -> list[str]:
    """The slow hosts among outliers, each once."""
    return list(dict.fromkeys(outlier.host for outlier in candidates if is_slow(outlier)))


def outliers(metric: str, values: Mapping[str, float]) -> Iterator[Outlier]:
    """Hosts whose figure differs from the others, among completed runs of one plan.

    Uses the limit of Iglewicz and Hoaglin for the modified z-score, 3.5; a clearly slow host is one from 3.
    """
    if len(values) < LEAST_RUNS:
        return
    median = statistics.median(values.values())
    for host, value in values.items():
        away = value - median
        if abs(away) <= LEAST_SHARE * abs(median) or not median:
            continue
        z = robust_z(value, values.values())
        outlier = Outlier(host=host, metric=metric, value=value, median=median, share=away / median, robust_z=z)
        if z is None or abs(z) > MOST_Z or is_clearly_slow(outlier):
            yield outlier
