"""Uniform random tokens: the loss ends at ln(vocabulary), where every model and every seed ends."""

from collections.abc import Iterator, Sequence
from typing import Any

from steelyard.accounting.vocabularies import PADDED_TO, Vocabulary
from steelyard.comparison.diagnoses import Cause, Diagnosis, Ending, endings
from steelyard.comparison.tiers import Pair
from steelyard.reasons import SideName
from steelyard.verdict.floors import share_of_uniform, uniform_vocabularies, uniform_vocabulary

_LOW, _HIGH = 10.3, 12.0
"""Where the logarithms of most vocabularies lie."""


def _sentence(side: SideName, endings: Sequence[Ending], vocabularies: Sequence[Vocabulary], **_: Any) -> str:
    vocabulary, *others = vocabularies
    words = ", or ".join(other.words for other in others)
    either = f" (or {words}, which a loss does not tell apart)" if others else ""
    left = endings[0].course.end - vocabulary.floor
    return (
        f"the {side} had reached the model uniform over {vocabulary.words}{either}: its tokens are uniform random, "
        f"and of what is to be learnt of them (floor ln {vocabulary.size:,} = {vocabulary.floor:.4f}) "
        f"{max(left, 0.0):.4f} nats are left; no seed changes that"
    )


def _evidence(endings: Sequence[Ending], vocabularies: Sequence[Vocabulary], share: float, **_: Any) -> Iterator[str]:
    yield from (ending.where for ending in endings)
    vocabulary = vocabularies[0]
    yield f"ln {vocabulary.size:,} = {vocabulary.floor:.4f}"
    if vocabulary.padded != vocabulary.size and vocabulary.tensor is not None:
        declared = endings[0].subject.whole("parallelism.tensor_parallel_size") == vocabulary.tensor
        yield (
            f"ln {vocabulary.padded:,} = {vocabulary.uniform:.4f}: tensor-parallel size {vocabulary.tensor} "
            f"{'pads' if declared else 'would pad'} it to a multiple of {PADDED_TO * vocabulary.tensor}"
        )
    yield f"it has come to rest; of all losses between {_LOW:g} and {_HIGH:g}, {share:.1%} would be named so"


CODE = Cause(
    "uniform_data",
    _sentence,
    evidence=_evidence,
    confirm="train it on text, or on `data.source: markov`, whose floor is known and lower",
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
        yield Diagnosis(CODE, side, {"side": side, "endings": ends, "vocabularies": vocabularies, "share": share})
