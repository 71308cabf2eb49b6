"""The tokens of one step, by each side's own figures: rate x GPUs x step time."""

from collections.abc import Iterator

from steelyard.comparison.diagnoses.diagnosis import Diagnosis
from steelyard.comparison.own_figures import APART, OwnStep, own_step
from steelyard.comparison.tiers import Pair

CODE = "tokens_per_step"


def diagnose(pair: Pair) -> Iterator[Diagnosis]:
    found = [own_step(side) for side in (pair.target, pair.baseline)]
    if found[0] is None or found[1] is None:
        return
    ours, theirs = found[0], found[1]
    if abs(ours.tokens / theirs.tokens - 1) <= APART:
        return
    ratio = max(ours.tokens / theirs.tokens, theirs.tokens / ours.tokens)
    yield Diagnosis(
        CODE,
        "both",
        f"one step is {ours.tokens:,.0f} tokens on the target and {theirs.tokens:,.0f} on the baseline, by their own "
        f"figures, {ratio:.2f} times apart: the speedup by tokens is {ours.rate / theirs.rate:.2f}, by step time "
        f"{theirs.seconds / ours.seconds:.2f}, and neither compares one job; curves over steps compare different "
        "amounts of data",
        (_words("the target", ours), _words("the baseline", theirs)),
        "state batch and sequence of both, and compare at the same tokens a step",
    )


def _words(name: str, own: OwnStep) -> str:
    return f"{name}: {own.rate:,.0f} tokens/s a GPU x {own.gpus} GPUs x {own.seconds:.4g} s = {own.tokens:,.0f} tokens"
