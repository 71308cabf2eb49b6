"""Vocabularies of the field, and what frameworks pad them to: a loss tells which one a model has."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

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
NULL_SIZES = {("primus", 131072): "NullTokenizer's"}
"""Whose a size is in a framework that takes it where no tokenizer is given."""
PADDED_TO = 128
"""Times the tensor-parallel size; Megatron and all that stand on it."""
PADS = {
    **dict.fromkeys(("megatron", "megatron-bridge", "megatron-deepspeed", "nemo", "primus"), True),
    **dict.fromkeys(("maxtext", "torchtitan", "native"), False),
}
"""Whether a framework pads; one that is not here may."""
TENSOR_SIZES = (1, 2, 4, 8)


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


def padded(size: int, tensor: int) -> int:
    """The size a vocabulary gets under a tensor-parallel size."""
    unit = PADDED_TO * tensor
    return -(-size // unit) * unit


def candidates(sizes: Iterable[int], framework: str = "", tensor: int | None = None) -> Iterator[Vocabulary]:
    """These vocabularies as a framework pads them, each size once; every usual padding where that is not known."""
    pads, seen = PADS.get(framework), set()
    tensors: Sequence[int | None] = () if pads is False else TENSOR_SIZES if tensor is None else (tensor,)
    for size in sizes:
        for one in tensors if pads else (None, *tensors):
            whose = NULL_SIZES.get((framework, size)) or VOCABULARIES.get(size, "its own")
            found = Vocabulary(size, whose, padded(size, one) if one else size, one)
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
