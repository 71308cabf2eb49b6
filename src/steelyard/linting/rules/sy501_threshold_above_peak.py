"""A threshold above what the GPU can do or holds.

Why: no run reaches it, so the test fails whatever the cluster does, until someone turns it off.
Fix: ask for less than the dense peak of the precision used, and than the card holds. Of an `_example_` it is a warning.
"""

from collections.abc import Iterator

from steelyard.experiment import Problem
from steelyard.experiment.case import Case
from steelyard.experiment.reading import Bound
from steelyard.linting.figures import asks_for_speed, implied_tflops, shown_bound
from steelyard.linting.rule import Rule

RULE = Rule("SY501", "error")


def check(case: Case) -> Iterator[Problem]:
    yield from _memory(case)
    peak = case.placement.peak_tflops(case.resolved.experiment.precision)
    if peak is None:
        return
    for bound in case.reading.bounds:
        needed = _needed(case, bound)
        if needed is not None and needed > peak and asks_for_speed(bound.threshold):
            words = "" if bound.threshold.metric == "tflops_per_gpu" else f", which takes {needed:,.0f} TFLOP/s"
            yield RULE.at(
                case.reading,
                bound.path,
                message=f"{shown_bound(bound)}{words}",
                fix="measure it, or ask for less",
                value=bound.threshold.value,
                expected=f"below the dense peak of {peak:,.1f} TFLOP/s of the {case.placement.label}",
                severity="warning" if bound.example else "error",
            )


def _memory(case: Case) -> Iterator[Problem]:
    card = case.placement.gpu.usable_gib if case.placement.gpu else None
    for bound in case.reading.bounds:
        floor = bound.threshold.metric == "memory_peak_gib" and asks_for_speed(bound.threshold)
        if card is not None and floor and bound.threshold.value > card:
            yield RULE.at(
                case.reading,
                bound.path,
                message=shown_bound(bound),
                fix="ask for less",
                value=bound.threshold.value,
                expected=f"at most the {card} GiB of the {case.placement.label}",
                severity="warning" if bound.example else "error",
            )


def _needed(case: Case, bound: Bound) -> float | None:
    if bound.threshold.metric == "mfu":
        peak = case.placement.peak_tflops(case.resolved.experiment.precision)
        return bound.threshold.value * peak if peak else None
    return implied_tflops(case, bound.threshold)
