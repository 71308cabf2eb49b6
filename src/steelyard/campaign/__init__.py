"""Several runs as one: repeats, fleets, learned thresholds, trends, scaling, families."""

import difflib
from dataclasses import dataclass
from pathlib import Path

from steelyard.errors import InputError
from steelyard.experiment.thresholds import METRICS


@dataclass(frozen=True, slots=True)
class CampaignRequest:
    """Where to write the runs, and whether to judge them."""

    out: Path
    name: str | None
    command: list[str]
    """The command line, for the record."""
    judges: bool = True


def refused(key: str, problem: str, expected: str, value: str | None = None, next: str | None = None) -> InputError:
    """The error for runs or comparisons that cannot be combined."""
    return InputError(f"{key}: {problem}", key=key, value=value, expected=expected, next=next)


def figure_text(value: float) -> str:
    """Five digits, never in scientific notation: `0.78493`, `7,754.2`, `201,230`."""
    return f"{value:,.0f}" if 10_000 <= abs(value) < 1e15 else f"{value:,.5g}"


def check_metric(option: str, metric: str, command: str) -> None:
    """Refuse an unknown metric; `command` and the nearest metric are the command to try."""
    if metric not in METRICS:
        nearest = difflib.get_close_matches(metric, METRICS, n=1, cutoff=0.0)[0]
        expected, fix = f"one of {', '.join(METRICS)}", f"{command} {nearest}"
        raise InputError(f"{option}: unknown metric {metric!r}", key=option, value=metric, expected=expected, next=fix)
