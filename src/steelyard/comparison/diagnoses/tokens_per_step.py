"""Different tokens per step, from reported figures: rate x GPUs x step time."""

from collections.abc import Iterator

from steelyard.comparison.diagnoses import Cause, Diagnosis
from steelyard.comparison.own_figures import APART, OwnStep, own_step
from steelyard.comparison.phrases import plural, rounded
from steelyard.comparison.tiers import Pair


def _sentence(called: tuple[str, str], target: OwnStep, baseline: OwnStep) -> str:
    ratio = max(target.tokens / baseline.tokens, baseline.tokens / target.tokens)
    tokens = f"{rounded(target.tokens)} and {rounded(baseline.tokens)} tokens per step"
    return f"{called[0]} and {called[1]} use different batch sizes: {tokens} ({ratio:.2f} times apart)"


def _evidence(called: tuple[str, str], target: OwnStep, baseline: OwnStep) -> Iterator[str]:
    for side, own in zip(called, (target, baseline), strict=True):
        figures = f"{own.rate:,.0f} tokens/s per GPU x {plural(own.gpus, 'GPU')} x {own.seconds:.4g} s"
        yield f"{side}: {figures} = {own.tokens:,.0f} tokens"
    by_tokens, by_time = target.rate / baseline.rate, baseline.seconds / target.seconds
    yield f"speedup {by_tokens:.3g} by tokens, {by_time:.3g} by step time: neither compares equal work"
    yield "loss curves over steps compare different amounts of data"


CODE = Cause(
    "tokens_per_step",
    _sentence,
    evidence=_evidence,
    confirm="set batch size and sequence length of both runs to the same values",
)
"""By reported rates and step times the two sides process different numbers of tokens per step."""


def diagnose(pair: Pair) -> Iterator[Diagnosis]:
    target, baseline = map(own_step, pair.sides)
    if target is None or baseline is None or abs(target.tokens / baseline.tokens - 1) <= APART:
        return
    yield Diagnosis(
        CODE, "both", {"called": pair.called, "target": target, "baseline": baseline}, ("training.tokens_per_step",)
    )
