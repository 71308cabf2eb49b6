"""Vocabularies of the field, and what frameworks pad them to: a loss tells which one a model has."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from steelyard.accounting.parameters import padded_vocab_size

VOCABULARIES = {
    50257: "GPT-2's",
    128256: "Llama 3's",
    32000: "Llama 2's",
    32768: "Mistral 3's",
    131072: "Tekken's",
    151936: "Qwen 2's",
    102400: "DeepSeek 2's",
    129280: "DeepSeek 3's",
    256000: "Gemma's",
}
PADDED_TO = 128
"""Times the tensor-parallel size; Megatron and all that stand on it, and so what one that is not known may do."""
TENSOR_SIZES = (1, 2, 4, 8)


class Habits(Protocol):
    """What a framework does to a model that nobody has trained yet."""

    @property
    def vocabulary_multiple(self) -> int | None:
        """What it pads a vocabulary to, times the tensor-parallel size; None where that is not known."""
        ...

    @property
    def mock_vocabularies(self) -> Mapping[int, str | None]:
        """Sizes it takes where no tokenizer is given, and whose each then is."""
        ...

    @property
    def init_stds(self) -> tuple[float | None, ...]:
        """What it may start weights with; None for fan-in."""
        ...


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """So many tokens, and the logits a model has for them."""

    size: int
    whose: str
    padded: int
    tensor: int | None
    """The tensor-parallel size that pads it so; None where it is not padded."""

    @property
    def floor(self) -> float:
        """The loss that uniform random tokens cannot be learnt below."""
        return math.log(self.size)

    @property
    def uniform(self) -> float:
        """The loss of a model that gives every logit the same."""
        return math.log(self.padded)

    @property
    def words(self) -> str:
        padded = f" padded to {self.padded:,}" if self.padded != self.size else f" of {self.size:,}"
        return f"{self.whose} vocabulary{padded}"


def candidates(sizes: Iterable[int], habits: Habits, tensor: int | None) -> Iterator[Vocabulary]:
    """These vocabularies as a framework pads them, each size once; every usual padding where that is not known."""
    multiple, seen = habits.vocabulary_multiple, set()
    tensors: Sequence[int | None] = () if multiple == 1 else TENSOR_SIZES if tensor is None else (tensor,)
    if multiple is None or multiple == 1:
        tensors = (None, *tensors)
    for size in sizes:
        for one in tensors:
            whose = habits.mock_vocabularies.get(size) or VOCABULARIES.get(size, "its own")
            padded = padded_vocab_size(size, (multiple or PADDED_TO) * one) if one else size
            found = Vocabulary(size, whose, padded, one)
            if (found.size, found.padded) not in seen:
                seen.add((found.size, found.padded))
                yield found


def share_within(places: Iterable[tuple[float, float]], low: float, high: float) -> float:
    """How much of a stretch some intervals cover together: how often a loss would be in one by chance."""
    covered, end = 0.0, low
    for first, last in sorted(places):
        covered += max(0.0, min(last, high) - max(first, end))
        end = max(end, min(last, high))
    return covered / (high - low)
