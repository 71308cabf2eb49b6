"""The tokens of one step, by each side's own figures: rate x GPUs x step time."""

from collections.abc import Iterator

from steelyard.comparison.diagnoses import Cause, Diagnosis
from steelyard.comparison.own_figures import APART, OwnStep, own_step
from steelyard.comparison.tiers import Pair


def _sentence(target: OwnStep, baseline: OwnStep) -> str:
    ratio = max(target.tokens / baseline.tokens, baseline.tokens / target.tokens)
    return (
        f"one step is {target.tokens:,.0f} tokens on the target and {baseline.tokens:,.0f} on the baseline, by their "
        f"own figures, {ratio:.2f} times apart: the speedup by tokens is {target.rate / baseline.rate:.2f}, by step "
        f"time {baseline.seconds / target.seconds:.2f}, and neither compares one job; curves over steps compare "
        "different amounts of data"
    )


def _evidence(**sides: OwnStep) -> Iterator[str]:
    for side, own in sides.items():
        figures = f"{own.rate:,.0f} tokens/s a GPU x {own.gpus} GPUs x {own.seconds:.4g} s"
        yield f"the {side}: {figures} = {own.tokens:,.0f} tokens"


CODE = Cause(
    "tokens_per_step",
    _sentence,
    evidence=_evidence,
    confirm="state batch and sequence of both, and compare at the same tokens a step",
)
"""By their own figures the two sides process different numbers of tokens per step."""


def diagnose(pair: Pair) -> Iterator[Diagnosis]:
    target, baseline = map(own_step, pair.sides)
    if target is None or baseline is None or abs(target.tokens / baseline.tokens - 1) <= APART:
        return
    yield Diagnosis(CODE, "both", {"target": target, "baseline": baseline}, ("training.tokens_per_step",))
