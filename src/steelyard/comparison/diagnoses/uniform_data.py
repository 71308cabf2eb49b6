"""Uniform random tokens: the loss ends at ln(vocabulary) for every model and every seed."""

from collections.abc import Iterator, Sequence
from typing import Any

from steelyard.accounting.vocabularies import PADDED_TO, Vocabulary
from steelyard.comparison.diagnoses import Cause, Diagnosis, Ending, endings
from steelyard.comparison.tiers import Pair
from steelyard.verdict.floors import share_of_uniform, uniform_vocabularies, uniform_vocabulary

_LOW, _HIGH = 10.3, 12.0
"""Where the logarithms of most vocabularies lie."""


def _sentence(side: str, vocabularies: Sequence[Vocabulary], **_: Any) -> str:
    vocabulary = vocabularies[0]
    return f"{side} trained on random tokens: its loss stays at ln({vocabulary.padded:,}) = {vocabulary.uniform:.2f}"


def _evidence(endings: Sequence[Ending], vocabularies: Sequence[Vocabulary], share: float, **_: Any) -> Iterator[str]:
    yield from (ending.where for ending in endings)
    vocabulary, *others = vocabularies
    words = " or ".join(other.words for other in others)
    either = f" (or over {words}, which have almost the same loss)" if others else ""
    left = max(endings[0].course.end - vocabulary.floor, 0.0)
    yield f"this is the loss of a uniform model over {vocabulary.words}{either}"
    yield f"floor ln {vocabulary.size:,} = {vocabulary.floor:.4f}: {left:.4f} nats are left, with any seed"
    if vocabulary.padded != vocabulary.size and vocabulary.tensor is not None:
        declared = endings[0].subject.whole("parallelism.tensor_parallel_size") == vocabulary.tensor
        yield (
            f"ln {vocabulary.padded:,} = {vocabulary.uniform:.4f}: tensor-parallel size {vocabulary.tensor} "
            f"{'pads' if declared else 'would pad'} it to a multiple of {PADDED_TO * vocabulary.tensor}"
        )
    yield f"the loss no longer changes; {share:.1%} of all losses between {_LOW:g} and {_HIGH:g} would match by chance"


CODE = Cause(
    "uniform_data",
    _sentence,
    evidence=_evidence,
    confirm="train on text, or on `data.source: markov`, whose floor is known and lower",
)
"""A side trains on uniform random tokens: its loss ends at the logarithm of the vocabulary."""


def diagnose(pair: Pair) -> Iterator[Diagnosis]:
    for side, ends in endings(pair):
        named = [uniform_vocabulary(ending.subject) for ending in ends]
        if None in named:
            continue
        first = ends[0]
        vocabularies = [named[0], *uniform_vocabularies(first.subject)[1:]]
        share = share_of_uniform(first.subject, first.course.first, _LOW, _HIGH)
        yield Diagnosis(
            CODE, side, {"side": pair.name_of(side), "endings": ends, "vocabularies": vocabularies, "share": share}
        )
