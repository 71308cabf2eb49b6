"""A metric over the runs of one experiment, oldest first; runs of another job than the latest are marked.

A fleet is one point: the median of its completed runs.
"""

import shlex
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from steelyard.campaign import check_metric, figure_text
from steelyard.comparison.contract import alike, known_value
from steelyard.errors import InputError
from steelyard.experiment.keys import KEYS, STATED, blocking
from steelyard.experiment.policy import Metric
from steelyard.experiment.thresholds import COMPUTED, REPORTED
from steelyard.reasons import Code, Reason
from steelyard.records import Run
from steelyard.records.fleet import Fleet
from steelyard.verdict import read_subject, word_of
from steelyard.verdict.figures import Figure

_Settings = dict[str, tuple[bool, Any]]
"""By dotted key, whether a value is known, and what it is."""

GOVERNS = {"memory_peak_gib": Metric.MEMORY, **dict.fromkeys(("mfu", COMPUTED, REPORTED), Metric.FLOPS)}
"""The comparison whose keys must agree for a metric; throughput for the others."""

NO_RUN_COMPLETED = Code("no_run_completed", "no run completed")
"""No run of the fleet completed."""
RUN_UNREADABLE = Code("run_unreadable", "{error}")
"""The run cannot be read; the error is shown."""


@dataclass(frozen=True, slots=True)
class Spread:
    hosts: int
    runs: int
    """Completed runs with the metric."""
    lowest: float | None
    highest: float | None
    outliers: tuple[str, ...]

    @property
    def words(self) -> str:
        """`median of 4 of 5 hosts, 410.2 to 522.2; differs: g5`."""
        differing = f"; differs: {', '.join(self.outliers)}" if self.outliers else ""
        if self.lowest is None or self.highest is None:
            return f"{self.hosts} hosts"
        extent = f"{figure_text(self.lowest)} to {figure_text(self.highest)}"
        return f"median of {self.runs} of {self.hosts} hosts, {extent}{differing}"


@dataclass(frozen=True, slots=True)
class Point:
    run: Path
    platform: str
    started: str
    verdict: str | None
    value: float | None
    reason: str | None
    reason_code: str | None
    differs: tuple[str, ...]
    """Settings that block a comparison with the latest run; if not empty, this is or may be another job."""
    spread: Spread | None = None
    """For a fleet; null for a run."""

    @property
    def differs_in(self) -> str:
        return ", ".join(self.differs)

    def document(self) -> dict[str, Any]:
        names = ("platform", "started", "verdict", "value", "reason", "reason_code")
        return {
            "run" if self.spread is None else "fleet": str(self.run.resolve()),
            "name": self.run.name,
            **{name: getattr(self, name) for name in names},
            "differs": list(self.differs),
            **(asdict(self.spread) if self.spread else {}),
        }


@dataclass(frozen=True, slots=True)
class Trend:
    metric: str
    experiment: str
    points: tuple[Point, ...]

    def alike(self) -> tuple[Point, ...]:
        """The runs of the same job as the latest run that have a value."""
        return tuple(point for point in self.points if point.value is not None and not point.differs)

    def document(self) -> dict[str, Any]:
        return {
            "metric": self.metric,
            "experiment": self.experiment,
            "runs": [point.document() for point in self.points if point.spread is None],
            "fleets": [point.document() for point in self.points if point.spread is not None],
        }


_Entry = tuple[Run | Fleet, list[Run]]
"""A run, or a fleet, with its started runs."""


def _entries(sources: Iterable[Run | Fleet]) -> list[_Entry]:
    """Runs, and fleets with a started run, oldest first."""
    entries = [
        (source, [source] if isinstance(source, Run) else list(filter(None, source.runs()))) for source in sources
    ]
    started = ((source, runs) for source, runs in entries if runs)
    return sorted(started, key=lambda entry: (_moment(_started(entry[1])), entry[0].directory.name))


def _started(runs: Sequence[Run]) -> str:
    return min(run.manifest.provenance.started for run in runs)


def trend(sources: Iterable[Run | Fleet], metric: str, experiment: str | None) -> Trend:
    """The trend of one experiment, which must be named if there are several."""
    check_metric("METRIC", metric, "steelyard runs trend")
    by_name: dict[str, list[_Entry]] = {}
    for entry in _entries(sources):
        by_name.setdefault(str(entry[1][0].manifest.experiment.name), []).append(entry)
    first = next(iter(by_name), None)
    if experiment is None and len(by_name) == 1:
        experiment = first
    if experiment is None or experiment not in by_name:
        if not by_name:
            fix = "steelyard demo --recorded"
            raise InputError("no runs found", key="--experiment", value=experiment, expected="runs in --out", next=fix)
        several = f"found runs of {len(by_name)} experiments"
        problem = several if experiment is None else f"no runs of experiment {experiment!r}"
        expected, fix = f"one of {', '.join(by_name)}", f"--experiment {shlex.quote(str(first))}"
        raise InputError(problem, key="--experiment", value=experiment, expected=expected, next=fix)
    return Trend(metric, experiment, tuple(_points(by_name[experiment], metric)))


def _points(entries: Sequence[_Entry], metric: str) -> Iterator[Point]:
    keys = blocking(GOVERNS.get(metric, Metric.THROUGHPUT))
    read = [[_read(run, metric, keys) for run in runs] for _, runs in entries]
    shared = [next((values for _, values in of_runs if values), {}) for of_runs in read]
    latest: _Settings = next((values for values in reversed(shared) if values), {})
    for (source, runs), of_runs, values in zip(entries, read, shared, strict=True):
        differs = () if values is latest else tuple(_differing(values, latest))
        (figure, _), spread = of_runs[0], None
        if isinstance(source, Fleet):
            completed = [
                each for run, (each, _) in zip(runs, of_runs, strict=True) if run.status in ("completed", "ended")
            ]
            figure, spread = _together(source, completed, metric)
        judged = word_of(source) if isinstance(source, Run) else source.manifest.verdict
        place = (source.directory, runs[0].manifest.platform.name, _started(runs))
        code = figure.reason.code.name if figure.reason else None
        yield Point(*place, judged, figure.value, figure.why, code, differs, spread)


def _together(fleet: Fleet, completed: Sequence[Figure], metric: str) -> tuple[Figure, Spread]:
    """The median of the completed runs, and their range."""
    values = [figure.value for figure in completed if figure.value is not None]
    hosts = tuple(outlier.host for outlier in fleet.manifest.outliers if outlier.metric == metric)
    spread = Spread(len(fleet.manifest.runs), len(values), min(values, default=None), max(values, default=None), hosts)
    if not values:
        why = next((figure.reason for figure in completed if figure.reason), Reason(NO_RUN_COMPLETED))
        return Figure(None, why), spread
    return Figure(statistics.median(values)), spread


def _read(run: Run, metric: str, blocking: list[str]) -> tuple[Figure, _Settings]:
    """The figure of a run, and the settings that identify its job."""
    try:
        subject = read_subject(run)
    except InputError as reason:
        return Figure(None, Reason(RUN_UNREADABLE, {"error": str(reason)})), {}
    return subject.figures.metric(metric), {key: known_value(subject, key) for key in blocking}


def _differing(values: _Settings, latest: _Settings) -> Iterator[str]:
    for key, (known, value) in values.items():
        latest_known, latest_value = latest[key]
        if known and latest_known:
            if not alike(value, latest_value):
                yield key
        elif key not in STATED and not KEYS[key].usual:
            yield f"{key} (not recorded)"


def _moment(started: str) -> str:
    """Start time in UTC; unchanged if it is not a valid time."""
    try:
        return datetime.fromisoformat(started).astimezone(UTC).isoformat()
    except (ValueError, OverflowError):  # OverflowError: before the year 1 in UTC
        return started
