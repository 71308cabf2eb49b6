"""Thresholds as figures: what a bound asks of the GPU."""

from steelyard import accounting
from steelyard.experiment.case import Case
from steelyard.experiment.reading import Bound
from steelyard.experiment.thresholds import Direction, Threshold


def implied_tflops(case: Case, threshold: Threshold) -> float | None:
    """TFLOP/s a GPU that keeping the bound takes, by the causal formula; None where the bound says nothing of it."""
    experiment = case.resolved.experiment
    training = experiment.training
    each = accounting.flops_per_token(experiment.model, training.sequence_length)
    if threshold.metric == "tflops_per_gpu":
        return threshold.value
    if threshold.metric == "tokens_per_s_per_gpu":
        return threshold.value * each / 1e12
    if threshold.metric == "step_time_s" and not case.reading.nodes_open:
        tokens = training.global_batch_size * training.sequence_length / case.placement.world_size
        return tokens / threshold.value * each / 1e12
    return None


def asks_for_speed(threshold: Threshold) -> bool:
    """Whether keeping the bound takes at least so much: a floor under a rate, a ceiling over a time, or a band."""
    floor = threshold.direction in (Direction.AT_LEAST, Direction.WITHIN)
    return threshold.direction is not Direction.AT_LEAST if threshold.metric == "step_time_s" else floor


_UNITS = {"tflops_per_gpu": "TFLOP/s a GPU", "tokens_per_s_per_gpu": "tokens/s a GPU", "step_time_s": "s a step"}


def shown_bound(bound: Bound) -> str:
    """The bound as a person reads it, by its place's own name."""
    threshold, name = bound.threshold, bound.path[-1]
    if threshold.metric == "step_time_s" and "elapsed" in name:
        return f"{name} of {threshold.value * 1e3:,.0f} ms"
    what = name if not name.isdecimal() else threshold.metric
    return f"{what} of {threshold.value:,g} {_UNITS.get(threshold.metric, '')}".rstrip()
