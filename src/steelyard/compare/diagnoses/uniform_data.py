"""Uniform random tokens: the loss ends at ln(vocabulary), where every model and every seed ends."""

from collections.abc import Iterator

from steelyard.accounting.vocabularies import PADDED_TO, Vocabulary, candidates
from steelyard.compare.diagnoses.diagnosis import Diagnosis, Ending, endings
from steelyard.compare.tiers import Pair

CODE = "uniform_data"
_NEAR = 0.006
"""Nats; two paddings of GPT-2's vocabulary lie 0.0025 and more apart."""
_LEARNT = 0.25
"""Of the first loss: a model that fell further has learnt something."""
_FEWEST_STEPS = 50


def diagnose(pair: Pair) -> Iterator[Diagnosis]:
    for side, found in endings(pair):
        named = [vocabulary_of(one) for one in found]
        vocabulary = named[0]
        if vocabulary is None or any(one is None for one in named):
            continue
        left = found[0].loss - vocabulary.floor
        yield Diagnosis(
            CODE,
            side,
            f"the {side} had reached the model uniform over {vocabulary.words}: its tokens are uniform random, and of "
            f"what is to be learnt of them (floor ln {vocabulary.size:,} = {vocabulary.floor:.4f}) "
            f"{max(left, 0.0):.4f} nats are left; no seed changes that",
            (
                *(one.where for one in found),
                f"ln {vocabulary.size:,} = {vocabulary.floor:.4f}",
                *_padding(vocabulary),
            ),
            "train it on text, or on `data.source: markov`, whose floor is known and lower",
        )


def vocabulary_of(one: Ending) -> Vocabulary | None:
    """The vocabulary whose uniform model has this loss; the declared tensor-parallel size decides between near ones."""
    if one.curve.step[-1] < _FEWEST_STEPS or one.loss < (1 - _LEARNT) * one.first:
        return None
    if one.subject.value("data.source") not in (None, "uniform"):
        return None
    near = [each for each in candidates(one.subject.whole("model.vocab_size")) if abs(one.loss - each.uniform) < _NEAR]
    tensor = one.subject.whole("parallelism.tensor_parallel_size")
    return min(
        near,
        key=lambda each: (each.tensor is not None and each.tensor != tensor, abs(one.loss - each.uniform)),
        default=None,
    )


def _padding(vocabulary: Vocabulary) -> Iterator[str]:
    if vocabulary.padded != vocabulary.size and vocabulary.tensor is not None:
        yield (
            f"ln {vocabulary.padded:,} = {vocabulary.uniform:.4f}: tensor-parallel size {vocabulary.tensor} pads it "
            f"to a multiple of {PADDED_TO * vocabulary.tensor}"
        )
