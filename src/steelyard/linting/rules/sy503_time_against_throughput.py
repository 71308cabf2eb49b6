"""A time a step that is shorter than the throughput beside it makes.

Why: tokens/s is the batch's tokens over the time, so both are one measurement; a run that just keeps the tokens/s
then fails the time, and nobody can say which of the two was measured.
Fix: derive one from the other. Of an `_example_` it is a warning.
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
        took = f"{batch:,} x {length:,} tokens on {gpus} GPUs at {rate.threshold.value:,g} tokens/s each"
        message = f"{shown_bound(time)}, but {took} take {at_rate * 1e3:,.0f} ms"
        own_rate = f"{tokens_per_gpu / time.threshold.value:.0f} tokens/s"
        yield RULE.bound(case, time, message, f"write {at_rate * 1e3:.0f} ms, or {own_rate}, whichever was measured")
