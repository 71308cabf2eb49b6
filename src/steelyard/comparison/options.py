"""The values of options of `compare`: metrics, mode and margin."""

import difflib
import math
from collections.abc import Sequence

from steelyard.errors import InputError
from steelyard.experiment.experiment import Mode
from steelyard.experiment.policy import Metric

LEAST_MARGIN, MOST_MARGIN = 0.0001, 0.9999


def margin_share(margin: float | str | None) -> float | None:
    """A margin as a share, from a number or text such as `3%`."""
    if margin is None:
        return None
    text = str(margin)
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = math.nan
    if not LEAST_MARGIN <= share <= MOST_MARGIN:
        expected = f"a share from {LEAST_MARGIN} to {MOST_MARGIN}, or a percentage such as 5%"
        complaint = f"--margin {text} is not a share"
        raise InputError(complaint, key="--margin", value=text, expected=expected, next="--margin 0.05")
    return share


def metrics_of(metrics: str | Sequence[Metric | str]) -> list[Metric]:
    """Metrics by their names, such as `throughput,memory`."""
    words = [word.strip() for word in metrics.split(",")] if isinstance(metrics, str) else metrics
    known, given = [metric.value for metric in Metric], ",".join(words)
    wrong = next((word for word in words if word not in known), None)
    if wrong is not None:
        nearest = [next(iter(difflib.get_close_matches(word, known, n=1, cutoff=0.0)), known[0]) for word in words]
        expected, way_on = f"one or more of {', '.join(known)}", f"--for {','.join(nearest)}"
        complaint = f"--for {given}: unknown metric {wrong!r}"
        raise InputError(complaint, key="--for", value=given, expected=expected, next=way_on)
    return [Metric(word) for word in dict.fromkeys(words)]


def mode_of(text: str | None) -> Mode | None:
    """A mode by its name; None for the mode of the runs."""
    match text:
        case None | "best" | "matched":
            return text
    complaint, expected = f"--mode: unknown mode {text!r}", "best or matched"
    raise InputError(complaint, key="--mode", value=text, expected=expected, next="--mode best")
