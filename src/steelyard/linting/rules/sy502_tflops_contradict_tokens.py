"""TFLOP/s and tokens/s contradict each other.

Why: their quotient is the FLOPs per token: 6 per weight of a matrix, plus attention, which the causal mask may halve.
If it is more than 4% off both counts, one value belongs to another model, sequence length or run. 6 x all parameters
is not the formula of any framework.
Fix: measure both in one run, or compute one from the other. For an `_example_` it is a warning.
"""

from itertools import chain

from steelyard.accounting import Convention
from steelyard.experiment.thresholds import COMPUTED, REPORTED
from steelyard.linting.rule import Case, Problems, Rule, bound_pairs, shown_bound, with_value

RULE = Rule("SY502", "error")
TOLERANCE = 0.04


def check(case: Case) -> Problems:
    model, length = case.resolved.experiment.model, case.resolved.experiment.training.sequence_length
    conventions = (Convention.CAUSAL, Convention.NONCAUSAL)
    counts = [convention.flops_per_token(model, length) for convention in conventions]
    pairs = (bound_pairs(case, metric, "tokens_per_s_per_gpu") for metric in (COMPUTED, REPORTED))
    for flops, tokens in chain.from_iterable(pairs):
        rate = tokens.threshold.value
        quotient = flops.threshold.value * 1e12 / rate
        if any(abs(quotient / count - 1) <= TOLERANCE for count in counts):
            continue
        low, high = (_figure(count * rate / 1e12) for count in counts)
        ratio, causal, noncausal = (_figure(count / 1e9, 1) for count in (quotient, *counts))
        message = f"{shown_bound(flops)} and {shown_bound(tokens)} make {ratio} GFLOP per token"
        fix = f"at {rate:g} tokens/s write {low} TFLOP/s (causal) or {high} TFLOP/s (non-causal)"
        expected = f"{causal} (causal) or {noncausal} (non-causal) within 4%"
        choices = [with_value(flops, count * rate / 1e12) for count in counts]
        yield RULE.bound(case, flops, message, fix, expected, choices=choices)


def _figure(value: float, digits: int = 0) -> str:
    """With a number of decimals; three significant digits below 10."""
    return f"{value:.{digits}f}" if value >= 10 else f"{value:.3g}"
