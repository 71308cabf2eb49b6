"""A threshold above what the GPU can do.

Why: no run reaches it, so the test fails whatever the cluster does, until someone turns it off.
Fix: ask for less than the dense peak of the precision used. Of an `_example_` it is a warning.
"""

from collections.abc import Iterator

from steelyard.experiment import Problem
from steelyard.experiment.reading import Bound
from steelyard.lint.figures import implied_tflops, shown_bound
from steelyard.lint.rule import Case, Rule

RULE = Rule("SY501", "error")


def check(case: Case) -> Iterator[Problem]:
    peak = case.placement.peak_tflops(case.resolved.experiment.precision)
    if peak is None:
        return
    for bound in case.reading.bounds:
        needed = _needed(case, bound)
        if needed is not None and needed > peak:
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


def _needed(case: Case, bound: Bound) -> float | None:
    if bound.threshold.metric == "mfu":
        peak = case.placement.peak_tflops(case.resolved.experiment.precision)
        return bound.threshold.value * peak if peak else None
    return implied_tflops(case, bound.threshold)
