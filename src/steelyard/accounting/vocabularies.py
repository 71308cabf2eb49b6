"""Vocabularies of the field, and what frameworks pad them to: a loss tells which one a model has."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

VOCABULARIES = {
    50257: "GPT-2's",
    128256: "Llama 3's",
    32000: "Llama 2's",
    32768: "Mistral 3's",
    131072: "Tekken's",
    151936: "Qwen 2's",
    102400: "DeepSeek 2's",
    256000: "Gemma's",
}
PADDED_TO = 128
"""Times the tensor-parallel size; Megatron and all that stand on it."""
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


def candidates(own: int | None = None) -> Iterator[Vocabulary]:
    """Every vocabulary of the field, and the model's own, unpadded and as it is padded; each size once."""
    seen = set()
    for size, whose in {**({own: "its own"} if own else {}), **VOCABULARIES}.items():
        for tensor in (None, *TENSOR_SIZES):
            found = Vocabulary(size, VOCABULARIES.get(size, whose), padded(size, tensor) if tensor else size, tensor)
            if (found.size, found.padded) not in seen:
                seen.add((found.size, found.padded))
                yield found
