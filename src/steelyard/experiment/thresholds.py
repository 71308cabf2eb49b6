"""Limits that a run must meet, with an explicit direction."""

import difflib
import math
import re
from dataclasses import dataclass
from enum import StrEnum

COMPUTED, REPORTED = "tflops_per_gpu", "reported_tflops_per_gpu"
"""TFLOP/s by our causal formula, and as the framework prints them, by its own."""
METRICS = {
    "tokens_per_s_per_gpu": "Tokens per second and GPU: all tokens of the steady window over all of its time.",
    COMPUTED: "TFLOP/s per GPU, by Steelyard's formula with causal attention.",
    REPORTED: "TFLOP/s per GPU as the framework prints them, by its own formula.",
    "mfu": "Model FLOPs utilization: TFLOP/s per GPU as a share of the GPU's peak.",
    "step_time_s": "Median step time of the steady window, in seconds.",
    "memory_peak_gib": "Peak memory of a GPU, in GiB; `check` names what it measures.",
}
"""Figures of a run that a threshold can limit, with their meaning."""


class Direction(StrEnum):
    AT_LEAST = ">="
    AT_MOST = "<="
    WITHIN = "within"


@dataclass(frozen=True, slots=True)
class Threshold:
    """One limit of one metric."""

    metric: str
    direction: Direction
    value: float
    tolerance_percent: float | None = None
    """Half the width of a `within` band; None for >= and <=."""


CVS_NAMES = {
    "throughput_per_gpu": (REPORTED, Direction.AT_LEAST, 1.0),
    "tflops_per_sec_per_gpu": (REPORTED, Direction.AT_LEAST, 1.0),
    "tokens_per_gpu": ("tokens_per_s_per_gpu", Direction.AT_LEAST, 1.0),
    "tokens_per_sec_per_gpu": ("tokens_per_s_per_gpu", Direction.AT_LEAST, 1.0),
    "elapsed_time_per_iteration": ("step_time_s", Direction.AT_MOST, 1000.0),
}
"""Metric names of the suite: our name, the direction of the limit, and the number of its units per unit of ours."""

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_ONE_SIDED = re.compile(rf"\s*(?P<metric>\w+)\s*(?P<direction>>=|<=)\s*(?P<value>{_NUMBER})\s*")
_WITHIN = re.compile(rf"\s*(?P<metric>\w+)\s+within\s+(?P<value>{_NUMBER})\s*(?:\+-|±)\s*(?P<percent>{_NUMBER})\s*%\s*")
_BY_NATURE = re.compile(rf"\s*(?P<metric>\w+)\s*(?:=|:)\s*(?P<value>{_NUMBER})\s*")


def parse_threshold(text: str) -> Threshold:
    """Read `tokens_per_s_per_gpu>=6500` or `memory_peak_gib within 118 +- 5%`; ValueError has the message.

    A metric of the suite, such as `elapsed_time_per_iteration=12000`, has a fixed direction and its own unit.
    """
    if (match := _BY_NATURE.fullmatch(text)) and match["metric"] in CVS_NAMES:
        metric, direction, units = CVS_NAMES[match["metric"]]
        threshold = Threshold(metric, direction, float(match["value"]) / units)
    elif match := _ONE_SIDED.fullmatch(text):
        threshold = Threshold(match["metric"], Direction(match["direction"]), float(match["value"]))
    elif match := _WITHIN.fullmatch(text):
        threshold = Threshold(match["metric"], Direction.WITHIN, float(match["value"]), float(match["percent"]))
    else:
        raise ValueError(f"{text!r} is not a threshold, expected METRIC>=V, METRIC<=V or METRIC within V +- P%")
    if threshold.metric not in METRICS:
        near = difflib.get_close_matches(threshold.metric, METRICS, n=1, cutoff=0.5)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ValueError(f"{threshold.metric!r} is not a metric, expected one of {', '.join(METRICS)}{hint}")
    if not (math.isfinite(threshold.value) and threshold.value > 0):
        raise ValueError(f"{text!r} has the value {threshold.value}, expected a positive number")
    if threshold.tolerance_percent is not None and not 0 <= threshold.tolerance_percent < math.inf:
        raise ValueError(f"{text!r} has a tolerance of {threshold.tolerance_percent}%, expected 0% or more")
    return threshold
