"""Uniform random tokens: the loss ends at ln(vocabulary), where every model and every seed ends."""

from collections.abc import Iterator

from steelyard.accounting.vocabularies import PADDED_TO, Vocabulary
from steelyard.comparison.diagnoses.diagnosis import Diagnosis, Ending, endings
from steelyard.comparison.tiers import Pair
from steelyard.verdict.floors import share_of_uniform, uniform_vocabularies, uniform_vocabulary

CODE = "uniform_data"
_LOW, _HIGH = 10.3, 12.0
"""Where the logarithms of most vocabularies lie."""


def diagnose(pair: Pair) -> Iterator[Diagnosis]:
    for side, found in endings(pair):
        named = [vocabulary_of(one) for one in found]
        vocabulary = named[0]
        if vocabulary is None or any(one is None for one in named):
            continue
        left = found[0].loss - vocabulary.floor
        others = [one.words for one in uniform_vocabularies(found[0].subject)[1:]]
        either = f" (or {', or '.join(others)}, which a loss does not tell apart)" if others else ""
        share = share_of_uniform(found[0].subject, found[0].first, _LOW, _HIGH)
        yield Diagnosis(
            CODE,
            side,
            f"the {side} had reached the model uniform over {vocabulary.words}{either}: its tokens are uniform random, "
            f"and of what is to be learnt of them (floor ln {vocabulary.size:,} = {vocabulary.floor:.4f}) "
            f"{max(left, 0.0):.4f} nats are left; no seed changes that",
            (
                *(one.where for one in found),
                f"ln {vocabulary.size:,} = {vocabulary.floor:.4f}",
                *_padding(vocabulary, found[0]),
                f"it has come to rest; of all losses between {_LOW:g} and {_HIGH:g}, {share:.1%} would be named so",
            ),
            "train it on text, or on `data.source: markov`, whose floor is known and lower",
        )


def vocabulary_of(one: Ending) -> Vocabulary | None:
    """The vocabulary whose uniform model has this loss."""
    return uniform_vocabulary(one.subject)


def _padding(vocabulary: Vocabulary, one: Ending) -> Iterator[str]:
    if vocabulary.padded != vocabulary.size and vocabulary.tensor is not None:
        declared = one.subject.whole("parallelism.tensor_parallel_size") == vocabulary.tensor
        yield (
            f"ln {vocabulary.padded:,} = {vocabulary.uniform:.4f}: tensor-parallel size {vocabulary.tensor} "
            f"{'pads' if declared else 'would pad'} it "
            f"to a multiple of {PADDED_TO * vocabulary.tensor}"
        )
