"""A threshold is above the peak or the memory of the GPU.

Why: no run can reach it, so the check always fails until someone turns it off.
Fix: use a threshold below the dense peak of the precision, and below the memory of the GPU. For an `_example_` it is
a warning.
"""

from steelyard import accounting
from steelyard.experiment.reading import Bound
from steelyard.experiment.thresholds import COMPUTED, REPORTED
from steelyard.linting.rule import Case, Edit, Problems, Rule, asks_for_speed, shown_bound

RULE = Rule("SY501", "error")


def check(case: Case) -> Problems:
    peak, gpu = case.placement.peak_tflops(case.resolved.experiment.precision), case.placement.gpu
    bounds = [bound for bound in case.reading.bounds if asks_for_speed(bound.threshold)]
    for bound in bounds:
        memory = gpu.usable_gib if gpu and bound.threshold.metric == "memory_peak_gib" else None
        if memory is not None and bound.threshold.value > memory:
            expected = f"at most {memory} GiB, the memory of {case.placement.label}"
            yield RULE.bound(case, bound, shown_bound(bound), "lower it", expected, choices=[Edit(bound.path)])
    if peak is None:
        return
    for bound in bounds:
        needed = _tflops(case, bound, peak)
        if needed is not None and needed > peak:
            effort = "" if bound.threshold.metric in (COMPUTED, REPORTED) else f", which needs {needed:,.0f} TFLOP/s"
            expected = f"less than {peak:,.1f} TFLOP/s, the dense peak of {case.placement.label}"
            message, fix = f"{shown_bound(bound)}{effort}", "lower it to what was measured, or remove it"
            yield RULE.bound(case, bound, message, fix, expected, choices=[Edit(bound.path)])


def _tflops(case: Case, bound: Bound, peak: float) -> float | None:
    """TFLOP/s per GPU that the bound needs, by the causal formula; None if it does not depend on them."""
    experiment, value = case.resolved.experiment, bound.threshold.value
    training = experiment.training
    each = accounting.flops_per_token(experiment.model, training.sequence_length)
    tokens = training.global_batch_size * training.sequence_length / case.placement.world_size
    match bound.threshold.metric:
        case "tflops_per_gpu" | "reported_tflops_per_gpu":
            return value
        case "mfu":
            return value * peak
        case "tokens_per_s_per_gpu":
            return value * each / 1e12
        case "step_time_s" if not case.reading.nodes_open:
            return tokens / value * each / 1e12
    return None
