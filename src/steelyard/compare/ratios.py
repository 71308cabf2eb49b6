"""The three ratios: throughput speedup, memory usage efficiency, FLOPs utilization."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from steelyard.compare.policy import Metric
from steelyard.compare.side import Side
from steelyard.compare.within_run import LEVEL, METHOD, Spread, interval, spread
from steelyard.verdict import Subject

SINGLE_RUN = "single-run observation"


@dataclass(frozen=True, slots=True)
class Ratio:
    """Target over baseline, so that above 1 is good for the target; memory is turned round for that."""

    value: float
    low: float | None
    high: float | None
    interval: str
    """within_run: inside the runs that were made. runs: between runs."""
    level: float
    target_runs: int
    baseline_runs: int
    words: str
    method: str | None
    """How low and high were found; None where there are none."""
    target_figure: float
    baseline_figure: float
    notes: tuple[str, ...]
    """What a reader should know of the figures beside the interval."""


FIGURE_OF = {Metric.THROUGHPUT: "tokens_per_s_per_gpu", Metric.MEMORY: "memory_peak_gib", Metric.FLOPS: "mfu"}
NAME_OF = {
    Metric.THROUGHPUT: "throughput_speedup",
    Metric.MEMORY: "memory_usage_efficiency",
    Metric.FLOPS: "flops_utilization",
}


def missing(metric: Metric, side: Side) -> str | None:
    """Why a side has no figure for a metric."""
    for subject in side.subjects:
        figure = subject.figures.metric(FIGURE_OF[metric])
        if figure.value is None:
            return f"the {side.name} ({subject.run.directory.name}) has no {FIGURE_OF[metric]}: {figure.reason}"
    return None


def ratio(metric: Metric, target: Side, baseline: Side) -> Ratio:
    """A ratio whose figures are known on both sides; geometric means where a side has several runs."""
    ours, theirs = (_figure(metric, side.subjects) for side in (target, baseline))
    value = theirs / ours if metric == Metric.MEMORY else ours / theirs
    counts = len(target.subjects), len(baseline.subjects)
    around = None
    if counts == (1, 1) and metric != Metric.MEMORY:  # a peak is one figure: it has no spread inside a run
        around = interval(value, _spread(target.subjects[0]), _spread(baseline.subjects[0]))
    return Ratio(
        value=value,
        low=around[0] if around else None,
        high=around[1] if around else None,
        interval="within_run" if counts == (1, 1) else "runs",
        level=LEVEL,
        target_runs=counts[0],
        baseline_runs=counts[1],
        words=_words(counts),
        method=METHOD if around else None,
        target_figure=ours,
        baseline_figure=theirs,
        notes=() if metric == Metric.MEMORY else tuple(_unsettled(target, baseline)),
    )


def _unsettled(*sides: Side) -> Iterator[str]:
    for side in sides:
        for subject in side.subjects:
            if not subject.figures.window.settled:
                name = subject.run.directory.resolve().name
                yield f"step times of the {side.name} ({name}) had not settled by the middle of the run"


def _words(counts: tuple[int, int]) -> str:
    if min(counts) == 1:
        return SINGLE_RUN
    return f"observation of {counts[0]} and {counts[1]} runs, without an interval between runs"


def _figure(metric: Metric, subjects: Sequence[Subject]) -> float:
    values = [subject.figures.metric(FIGURE_OF[metric]).value for subject in subjects]
    return float(np.exp(np.mean(np.log(np.array(values, dtype=np.float64)))))


def _spread(subject: Subject) -> Spread | None:
    return spread(subject.steps.step_time_s.values[subject.figures.window.mask])
