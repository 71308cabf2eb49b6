"""Several runs as one: repeats, fleets, learnt thresholds, trends, scaling, families of jobs."""

from dataclasses import dataclass
from pathlib import Path

from steelyard.errors import InputError
from steelyard.experiment.thresholds import METRICS


@dataclass(frozen=True, slots=True)
class CampaignRequest:
    """Where runs go, and what is done with them."""

    out: Path
    name: str | None
    command: list[str]
    """What was typed, for the record."""
    judges: bool = True


def refused(key: str, problem: str, expected: str, value: str | None = None, next: str | None = None) -> InputError:
    """What to say of runs, or comparisons, that cannot be weighed together."""
    return InputError(f"{key}: {problem}", key=key, value=value, expected=expected, next=next)


def check_metric(option: str, metric: str, command: str) -> None:
    """Refuse a metric that no run has; `command` and a metric are what to type."""
    if metric not in METRICS:
        expected, fix = f"one of {', '.join(METRICS)}", f"{command} {METRICS[0]}"
        raise InputError(f"{option} {metric} is not known", key=option, value=metric, expected=expected, next=fix)
