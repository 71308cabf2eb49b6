"""TFLOP/s and tokens/s whose quotient is no count of the model's FLOPs.

Why: both are one measurement, and their quotient is the FLOPs of a token: 6 for each weight of a matrix, and attention,
halved under the causal mask or not. Outside 4 % of both, one of the two figures belongs to another model, another
sequence length or another run. 6 x all parameters is no framework's formula.
Fix: measure both in one run, or derive one from the other. Of an `_example_` it is a warning.
"""

from collections.abc import Iterator

from steelyard import accounting
from steelyard.accounting import Convention
from steelyard.experiment import Problem
from steelyard.experiment.case import Case
from steelyard.linting.figures import shown_bound
from steelyard.linting.rule import Rule

RULE = Rule("SY502", "error")
TOLERANCE = 0.04


def check(case: Case) -> Iterator[Problem]:
    experiment, bounds = case.resolved.experiment, case.reading.bounds
    counts = {
        word: accounting.flops_by_convention(word, experiment.model, experiment.training.sequence_length)
        for word in (Convention.CAUSAL, Convention.NONCAUSAL)
    }
    for flops in bounds:
        for tokens in bounds:
            if (flops.threshold.metric, tokens.threshold.metric) != ("tflops_per_gpu", "tokens_per_s_per_gpu"):
                continue
            if flops.example != tokens.example:
                continue
            quotient = flops.threshold.value * 1e12 / tokens.threshold.value
            if any(abs(quotient / count - 1) <= TOLERANCE for count in counts.values()):
                continue
            low, high = (_figure(count * tokens.threshold.value / 1e12) for count in counts.values())
            made, causal, noncausal = (_figure(count / 1e9, 1) for count in (quotient, *counts.values()))
            yield RULE.at(
                case.reading,
                flops.path,
                message=f"{shown_bound(flops)} and {shown_bound(tokens)} make {made} GFLOP a token",
                fix=f"at {tokens.threshold.value:g} tokens/s ask for {low} TFLOP/s (causal) or {high} (not)",
                value=flops.threshold.value,
                expected=f"{causal} (causal) or {noncausal} within 4 %",
                severity="warning" if flops.example else "error",
            )


def _figure(value: float, digits: int = 0) -> str:
    """With so many decimals, or for a small model the digits that say something."""
    return f"{value:.{digits}f}" if value >= 10 else f"{value:.3g}"
