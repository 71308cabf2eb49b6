"""A time a step that is shorter than the throughput beside it makes.

Why: tokens/s is the batch's tokens over the time, so both are one measurement; a run that just keeps the tokens/s
then fails the time, and nobody can say which of the two was measured.
Fix: derive one from the other. Of an `_example_` it is a warning.
"""

from collections.abc import Iterator

from steelyard.experiment import Problem
from steelyard.experiment.case import Case
from steelyard.linting.figures import asks_for_speed, shown_bound
from steelyard.linting.rule import Rule

RULE = Rule("SY503", "error")
TOLERANCE = 0.04


def check(case: Case) -> Iterator[Problem]:
    training = case.resolved.experiment.training
    if case.reading.nodes_open:
        return
    tokens_a_gpu = training.global_batch_size * training.sequence_length / case.placement.world_size
    for time in case.reading.bounds:
        for rate in case.reading.bounds:
            if (time.threshold.metric, rate.threshold.metric) != ("step_time_s", "tokens_per_s_per_gpu"):
                continue
            if time.example != rate.example:
                continue
            at_rate = tokens_a_gpu / rate.threshold.value
            kept = time.threshold.value >= at_rate * (1 - TOLERANCE)
            if kept or not (asks_for_speed(time.threshold) and asks_for_speed(rate.threshold)):
                continue
            yield RULE.at(
                case.reading,
                time.path,
                message=(
                    f"{shown_bound(time)}, but {training.global_batch_size:,} x {training.sequence_length:,} tokens on "
                    f"{case.placement.world_size} GPUs at {rate.threshold.value:,g} tokens/s each take "
                    f"{at_rate * 1e3:,.0f} ms"
                ),
                fix=(
                    f"write {at_rate * 1e3:.0f} ms, or {tokens_a_gpu / time.threshold.value:.0f} tokens/s, "
                    "whichever was measured"
                ),
                value=time.threshold.value,
                severity="warning" if time.example else "error",
            )
