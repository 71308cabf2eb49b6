"""TFLOP/s and tokens/s whose quotient is no count of the model's FLOPs.

Why: both are one measurement, and their quotient is the FLOPs of a token: 6 for each weight of a matrix, and attention,
halved under the causal mask or not. Outside 4 % of both, one of the two figures belongs to another model, another
sequence length or another run. 6 x all parameters is no framework's formula.
Fix: measure both in one run, or derive one from the other. Of an `_example_` it is a warning.
"""

from steelyard import accounting
from steelyard.accounting import Convention
from steelyard.linting.rule import Case, Problems, Rule, bound_pairs, shown_bound

RULE = Rule("SY502", "error")
TOLERANCE = 0.04


def check(case: Case) -> Problems:
    model, length = case.resolved.experiment.model, case.resolved.experiment.training.sequence_length
    conventions = (Convention.CAUSAL, Convention.NONCAUSAL)
    counts = [accounting.flops_by_convention(convention, model, length) for convention in conventions]
    for flops, tokens in bound_pairs(case, "tflops_per_gpu", "tokens_per_s_per_gpu"):
        rate = tokens.threshold.value
        quotient = flops.threshold.value * 1e12 / rate
        if any(abs(quotient / count - 1) <= TOLERANCE for count in counts):
            continue
        low, high = (_figure(count * rate / 1e12) for count in counts)
        made, causal, noncausal = (_figure(count / 1e9, 1) for count in (quotient, *counts))
        message = f"{shown_bound(flops)} and {shown_bound(tokens)} make {made} GFLOP a token"
        fix = f"at {rate:g} tokens/s ask for {low} TFLOP/s (causal) or {high} (not)"
        yield RULE.bound(case, flops, message, fix, f"{causal} (causal) or {noncausal} within 4 %")


def _figure(value: float, digits: int = 0) -> str:
    """With so many decimals, or for a small model the digits that say something."""
    return f"{value:.{digits}f}" if value >= 10 else f"{value:.3g}"
