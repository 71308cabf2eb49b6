"""The time per step contradicts the throughput.

Why: tokens/s is the tokens of the batch divided by the time, so both are one measurement. A run that just reaches the
tokens/s fails the time.
Fix: compute one from the other. For an `_example_` it is a warning.
"""

from steelyard.linting.rule import Case, Problems, Rule, asks_for_speed, bound_pairs, shown_bound

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
        kept = time.threshold.value >= at_rate * (1 - TOLERANCE)
        if kept or not (asks_for_speed(time.threshold) and asks_for_speed(rate.threshold)):
            continue
        job = f"{batch:,} x {length:,} tokens on {gpus} GPUs at {rate.threshold.value:,g} tokens/s per GPU"
        message = f"{shown_bound(time)}, but {job} take {at_rate * 1e3:,.0f} ms"
        own_rate = f"{tokens_per_gpu / time.threshold.value:.0f} tokens/s"
        yield RULE.bound(case, time, message, f"write {at_rate * 1e3:.0f} ms or {own_rate}, whichever was measured")
