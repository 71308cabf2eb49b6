"""Which runs of a fleet are unlike the others, by robust z-scores of their figures."""

import statistics
from collections.abc import Iterator, Mapping

from steelyard.records.fleet import Outlier
from steelyard.verdict.figures import Figures

METRICS = ("tokens_per_s_per_gpu", "step_time_s", "memory_peak_gib")
LEAST_RUNS = 4
"""Of three, the MAD is the distance of the middle one to its nearer neighbour, and any third run stands out."""
MOST_Z = 3.5
LEAST_SHARE = 0.05
"""A run nearer to the median is none, however closely the others agree."""


def outliers(figures: Mapping[str, Figures]) -> list[Outlier]:
    """The figures that stand out, by host: of completed runs of one plan, each on its steady window."""
    found = []
    for metric in METRICS:
        known = {
            host: figure.value for host, one in figures.items() if (figure := one.metric(metric)).value is not None
        }
        found += list(unlike(metric, known))
    return found


def unlike(metric: str, values: Mapping[str, float]) -> Iterator[Outlier]:
    """The modified z-score of Iglewicz and Hoaglin (How to Detect and Handle Outliers, 1993) and their bound of 3.5."""
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
