"""A threshold above what the GPU can do or holds.

Why: no run reaches it, so the test fails whatever the cluster does, until someone turns it off.
Fix: ask for less than the dense peak of the precision used, and than the card holds. Of an `_example_` it is a warning.
"""

from steelyard import accounting
from steelyard.experiment.reading import Bound
from steelyard.linting.rule import Case, Problems, Rule, asks_for_speed, shown_bound

RULE = Rule("SY501", "error")


def check(case: Case) -> Problems:
    peak, gpu = case.placement.peak_tflops(case.resolved.experiment.precision), case.placement.gpu
    bounds = [bound for bound in case.reading.bounds if asks_for_speed(bound.threshold)]
    for bound in bounds:
        card = gpu.usable_gib if gpu and bound.threshold.metric == "memory_peak_gib" else None
        if card is not None and bound.threshold.value > card:
            expected = f"at most the {card} GiB of the {case.placement.label}"
            yield RULE.bound(case, bound, shown_bound(bound), "ask for less", expected)
    if peak is None:
        return
    for bound in bounds:
        needed = _tflops(case, bound, peak)
        if needed is not None and needed > peak:
            takes = "" if bound.threshold.metric == "tflops_per_gpu" else f", which takes {needed:,.0f} TFLOP/s"
            expected = f"below the dense peak of {peak:,.1f} TFLOP/s of the {case.placement.label}"
            yield RULE.bound(case, bound, f"{shown_bound(bound)}{takes}", "measure it, or ask for less", expected)


def _tflops(case: Case, bound: Bound, peak: float) -> float | None:
    """TFLOP/s per GPU that keeping the bound takes, by the causal formula; None where the bound says nothing of it."""
    experiment, value = case.resolved.experiment, bound.threshold.value
    training = experiment.training
    each = accounting.flops_per_token(experiment.model, training.sequence_length)
    tokens = training.global_batch_size * training.sequence_length / case.placement.world_size
    match bound.threshold.metric:
        case "tflops_per_gpu":
            return value
        case "mfu":
            return value * peak
        case "tokens_per_s_per_gpu":
            return value * each / 1e12
        case "step_time_s" if not case.reading.nodes_open:
            return tokens / value * each / 1e12
    return None
