"""The time per step contradicts the throughput.

Why: tokens/s is the tokens of the batch divided by the time, so both are one measurement. A run that just reaches the
tokens/s fails the time, so only the stricter limit has an effect.
Fix: compute one from the other. It is an error if no run can meet both, otherwise a warning.
"""

import math

from steelyard.experiment.thresholds import Direction, Threshold
from steelyard.linting.rule import Case, Problems, Rule, asks_for_speed, bound_pairs, shown_bound, with_value

RULE = Rule("SY503", "error")
TOLERANCE = 0.04


def check(case: Case) -> Problems:
    if case.reading.nodes_open:
        return
    training, gpus = case.resolved.experiment.training, case.placement.world_size
    batch, length = training.global_batch_size, training.sequence_length
    tokens_per_gpu = batch * length / gpus
    for time, rate in bound_pairs(case, "step_time_s", "tokens_per_s_per_gpu"):
        at_rate = tokens_per_gpu / rate.threshold.value
        stricter = time.threshold.value < at_rate * (1 - TOLERANCE)
        asked = stricter and asks_for_speed(time.threshold) and asks_for_speed(rate.threshold)
        both_hold = _both_hold(time.threshold, rate.threshold, tokens_per_gpu)
        if both_hold and not asked:
            continue
        job = f"{batch:,} x {length:,} tokens on {gpus} GPUs at {rate.threshold.value:,g} tokens/s per GPU"
        message = f"{shown_bound(time)}, but {job} take {at_rate * 1e3:,.0f} ms"
        own_rate = f"{tokens_per_gpu / time.threshold.value:.0f} tokens/s"
        fix = f"write {at_rate * 1e3:.0f} ms or {own_rate}, whichever was measured"
        choices = with_value(time, at_rate), with_value(rate, tokens_per_gpu / time.threshold.value)
        yield RULE.bound(case, time, message, fix, severity="warning" if both_hold else None, choices=choices)


def _both_hold(time: Threshold, rate: Threshold, tokens_per_gpu: float) -> bool:
    """Whether a run can meet both limits, within the tolerance."""
    fewest, most = _range(rate)
    shortest, longest = _range(time)
    slowest, fastest = tokens_per_gpu / longest, tokens_per_gpu / shortest if shortest else math.inf
    return max(fewest, slowest) * (1 - TOLERANCE) <= min(most, fastest)


def _range(threshold: Threshold) -> tuple[float, float]:
    """The values that meet a limit."""
    value, share = threshold.value, (threshold.tolerance_percent or 0) / 100
    match threshold.direction:
        case Direction.AT_LEAST:
            return value, math.inf
        case Direction.AT_MOST:
            return 0.0, value
        case Direction.WITHIN:
            return value * (1 - share), value * (1 + share)
