"""The first loss, ln(padded vocabulary) + hidden x std^2 / 2, solved for the vocabulary and the weights' spread."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from steelyard.accounting.vocabularies import Vocabulary, candidates
from steelyard.compare.diagnoses.diagnosis import Diagnosis, Ending, endings
from steelyard.compare.tiers import Pair
from steelyard.verdict import Status

CODE = "untrained_loss"
STDS = (0.02, 0.01, 0.008, 0.008944, 0.006)
"""Those that frameworks and recipes of the field start weights with."""
_NEAR = 0.006
_HIDDEN = (4096, 5120, 8192, 2048, 1024)
"""Sizes tried where none is declared."""


@dataclass(frozen=True, slots=True)
class Solution:
    """What gives a first loss."""

    vocabulary: Vocabulary
    hidden: int
    std: float | None
    """None where weights start by fan-in, whose logits have unit spread."""

    @property
    def loss(self) -> float:
        return self.vocabulary.uniform + (0.5 if self.std is None else self.hidden * self.std**2 / 2)

    @property
    def words(self) -> str:
        spread = "weights started by fan-in" if self.std is None else f"init std {self.std:g}"
        return f"{self.vocabulary.words} and {spread} (hidden {self.hidden:,}): {self.loss:.4f}"


def diagnose(pair: Pair) -> Iterator[Diagnosis]:
    """Of sides whose first losses differ: there each is explained."""
    found = list(endings(pair))
    firsts = [one[0].first for _, one in found]
    if len(found) < 2 or abs(firsts[0] - firsts[1]) < _NEAR:
        return
    for side, runs in found:
        one = runs[0]
        if one.curve.step[0] != 1 or one.subject.events_of("resumed") or _as_declared(pair, side):
            continue
        solutions = solve(one)
        if solutions:
            yield _diagnosis(side, one, solutions)


def _as_declared(pair: Pair, name: str) -> bool:
    """Whether the first loss is the declared model's own: then there is nothing to explain."""
    side = pair.target if name == "target" else pair.baseline
    found = [one.status for one in side.verdicts[0].findings if one.check == "first_loss"]
    return found == [Status.PASS]


def _diagnosis(side: str, one: Ending, solutions: list[Solution]) -> Diagnosis:
    declared = one.subject.whole("model.vocab_size")
    evidence = [f"the first loss is {one.first:.5g}", *(solution.words for solution in solutions[:4])]
    if declared and one.first < math.log(declared):
        evidence.append(
            f"it is below ln {declared:,} = {math.log(declared):.4f}: no untrained model of its declared vocabulary"
        )
    best = solutions[0]
    if len(solutions) == 1:
        spread = "weights started by fan-in" if best.std is None else f"an init std of {best.std:g}"
        message = f"the {side}'s first loss, {one.first:.5g}, is that of {best.vocabulary.words} with {spread}"
    else:
        message = (
            f"the {side}'s first loss, {one.first:.5g}, is that of {len(solutions)} models: {best.words}, or others"
        )
    return Diagnosis(
        CODE,
        "target" if side == "target" else "baseline",
        f"{message}; it tells of vocabulary and weights, not of data or seed",
        tuple(evidence),
        "state `model.vocab_size`, the tensor-parallel size and `training.init_method_std` of both sides",
    )


def solve(one: Ending) -> list[Solution]:
    """Every pair of the field that gives this first loss, the nearest first; what is declared decides between them."""
    subject = one.subject
    hidden, tensor = subject.whole("model.hidden_size"), subject.whole("parallelism.tensor_parallel_size")
    std = subject.value("training.init_method_std")
    stds = (std,) if isinstance(std, float) else (*STDS, None)
    found = [
        Solution(vocabulary, size, spread)
        for vocabulary in candidates(subject.whole("model.vocab_size"))
        for size in ((hidden,) if hidden else _HIDDEN)
        for spread in stds
    ]
    near = sorted(
        (each for each in found if abs(each.loss - one.first) < _NEAR), key=lambda each: abs(each.loss - one.first)
    )
    if tensor is not None:
        near = [each for each in near if each.vocabulary.tensor in (None, tensor)] or near
        padded = {each.vocabulary.size for each in near if each.vocabulary.tensor == tensor}
        near = [each for each in near if each.vocabulary.tensor == tensor or each.vocabulary.size not in padded]
    own = [each for each in near if each.vocabulary.size == subject.whole("model.vocab_size")]
    return own or near
