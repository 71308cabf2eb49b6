"""What a run must reach, in words whose direction is explicit."""

import difflib
import math
import re
from dataclasses import dataclass
from enum import StrEnum

METRICS = ("tokens_per_s_per_gpu", "tflops_per_gpu", "mfu", "step_time_s", "memory_peak_gib")


class Direction(StrEnum):
    AT_LEAST = ">="
    AT_MOST = "<="
    WITHIN = "within"


@dataclass(frozen=True, slots=True)
class Threshold:
    """One asked bound on one metric."""

    metric: str
    direction: Direction
    value: float
    tolerance_percent: float | None = None
    """Half the width of a `within`; None for the one-sided directions."""


CVS_NAMES = {
    "throughput_per_gpu": ("tflops_per_gpu", Direction.AT_LEAST, 1.0),
    "tflops_per_sec_per_gpu": ("tflops_per_gpu", Direction.AT_LEAST, 1.0),
    "tokens_per_gpu": ("tokens_per_s_per_gpu", Direction.AT_LEAST, 1.0),
    "tokens_per_sec_per_gpu": ("tokens_per_s_per_gpu", Direction.AT_LEAST, 1.0),
    "elapsed_time_per_iteration": ("step_time_s", Direction.AT_MOST, 1000.0),
}
"""A suite's names of metrics: ours, the direction that is the metric's nature, and so many of its units in ours."""

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_ONE_SIDED = re.compile(rf"\s*(?P<metric>\w+)\s*(?P<direction>>=|<=)\s*(?P<value>{_NUMBER})\s*")
_WITHIN = re.compile(rf"\s*(?P<metric>\w+)\s+within\s+(?P<value>{_NUMBER})\s*(?:\+-|±)\s*(?P<percent>{_NUMBER})\s*%\s*")
_BY_NATURE = re.compile(rf"\s*(?P<metric>\w+)\s*(?:=|:)\s*(?P<value>{_NUMBER})\s*")


def parse_threshold(text: str) -> Threshold:
    """Read `tokens_per_s_per_gpu>=6500` or `memory_peak_gib within 118 +- 5%`; ValueError says what is wrong.

    A suite's `elapsed_time_per_iteration=12000` has the direction that is its nature, and its own unit.
    """
    if (match := _BY_NATURE.fullmatch(text)) and match["metric"] in CVS_NAMES:
        metric, direction, units = CVS_NAMES[match["metric"]]
        threshold = Threshold(metric, direction, float(match["value"]) / units)
    elif match := _ONE_SIDED.fullmatch(text):
        threshold = Threshold(match["metric"], Direction(match["direction"]), float(match["value"]))
    elif match := _WITHIN.fullmatch(text):
        threshold = Threshold(match["metric"], Direction.WITHIN, float(match["value"]), float(match["percent"]))
    else:
        raise ValueError(f"{text!r} is no threshold, expected METRIC>=V, METRIC<=V or METRIC within V +- P%")
    if threshold.metric not in METRICS:
        near = difflib.get_close_matches(threshold.metric, METRICS, n=1, cutoff=0.5)
        meant = f"; did you mean {near[0]}?" if near else ""
        raise ValueError(f"{threshold.metric!r} is no metric, expected one of {', '.join(METRICS)}{meant}")
    if not (math.isfinite(threshold.value) and threshold.value > 0):
        raise ValueError(f"{text!r} asks for {threshold.value}, expected a positive number")
    if threshold.tolerance_percent is not None and not 0 <= threshold.tolerance_percent < math.inf:
        raise ValueError(f"{text!r} allows {threshold.tolerance_percent} %, expected no less than 0")
    return threshold
