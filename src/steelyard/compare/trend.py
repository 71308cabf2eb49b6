"""A metric over the runs of one experiment, oldest first; runs of another job than the latest are kept apart."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from steelyard.compare.contract import known_value
from steelyard.compare.policy import POLICY, Effect, Metric
from steelyard.errors import InputError
from steelyard.experiment.thresholds import METRICS
from steelyard.records import Run
from steelyard.verdict import read_subject, word_of
from steelyard.verdict.figures import Figure

GOVERNS = {"memory_peak_gib": Metric.MEMORY, "mfu": Metric.FLOPS, "tflops_per_gpu": Metric.FLOPS}
"""Which comparison a metric is held to; throughput where none is named."""


@dataclass(frozen=True, slots=True)
class Point:
    """One run of a trend."""

    run: Path
    platform: str
    started: str
    verdict: str | None
    value: float | None
    reason: str | None
    """Why there is no value."""
    differs: tuple[str, ...]
    """What blocks a comparison with the latest run: where any is named, this is another job."""


@dataclass(frozen=True, slots=True)
class Trend:
    metric: str
    experiment: str
    points: tuple[Point, ...]

    def alike(self) -> tuple[Point, ...]:
        """The runs of the latest run's job that have a value."""
        return tuple(point for point in self.points if point.value is not None and not point.differs)

    def document(self) -> dict[str, Any]:
        return {
            "metric": self.metric,
            "experiment": self.experiment,
            "runs": [
                {
                    "run": str(point.run.resolve()),
                    "name": point.run.name,
                    "platform": point.platform,
                    "started": point.started,
                    "verdict": point.verdict,
                    "value": point.value,
                    "reason": point.reason,
                    "differs": list(point.differs),
                }
                for point in self.points
            ],
        }


def trend(runs: Iterable[Run], metric: str, experiment: str | None) -> Trend:
    """The trend of one experiment; which one must be said where there are several."""
    if metric not in METRICS:
        raise InputError(
            f"METRIC {metric} is not known",
            key="METRIC",
            value=metric,
            expected=f"one of {', '.join(METRICS)}",
            next=f"steelyard runs trend {METRICS[0]}",
        )
    by_name: dict[str, list[Run]] = {}
    for run in sorted(runs, key=lambda one: (_moment(one), one.directory.name)):
        by_name.setdefault(str(run.manifest.experiment.get("name")), []).append(run)
    names = ", ".join(by_name) or "none"
    if experiment is None and len(by_name) == 1:
        experiment = next(iter(by_name))
    if experiment is None or experiment not in by_name:
        found = (
            "there are runs of several experiments" if experiment is None else f"there are no runs of {experiment!r}"
        )
        raise InputError(
            found if by_name else "there are no runs",
            key="--experiment",
            value=experiment,
            expected=f"one of {names}" if by_name else "runs under --out",
            next=f"--experiment {next(iter(by_name))}" if by_name else "steelyard demo --recorded",
        )
    return Trend(metric, experiment, tuple(_points(by_name[experiment], metric)))


def _points(runs: list[Run], metric: str) -> Iterator[Point]:
    governing = GOVERNS.get(metric, Metric.THROUGHPUT)
    blocking = [key for key, effects in POLICY.items() if effects.get(governing) == Effect.BLOCKS]
    read = [(run, _read(run, metric, blocking)) for run in runs]
    latest: dict[str, tuple[bool, Any]] = next((values for _, (_, values) in reversed(read) if values), {})
    for run, (figure, values) in read:
        differs = tuple(_difference(key, value, latest[key]) for key, value in values.items() if values is not latest)
        place = (run.directory, run.manifest.platform.name, run.manifest.provenance.started)
        yield Point(*place, word_of(run), figure.value, figure.reason, tuple(filter(None, differs)))


def _read(run: Run, metric: str, blocking: list[str]) -> tuple[Figure, dict[str, tuple[bool, Any]]]:
    """A run's figure, and what it must share with another to be the same job."""
    try:
        subject = read_subject(run)
    except InputError as reason:
        return Figure(None, str(reason)), {}
    return subject.figures.metric(metric), {key: known_value(subject, key) for key in blocking}


def _difference(key: str, value: tuple[bool, Any], latest: tuple[bool, Any]) -> str:
    if not (value[0] and latest[0]):
        return f"{key} (not known)"
    return "" if value == latest else key


def _moment(run: Run) -> str:
    """When a run started, in UTC; as it is written where that is no time."""
    try:
        return datetime.fromisoformat(run.manifest.provenance.started).astimezone(UTC).isoformat()
    except ValueError:
        return run.manifest.provenance.started
