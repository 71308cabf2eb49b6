"""Common vocabularies, the first loss of an untrained model, and loss floors."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from steelyard.experiment.experiment import Data
from steelyard.experiment.model import Model
from steelyard.experiment.presets import PRESETS

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
"""Multiple that Megatron-based frameworks, and possibly unknown ones, pad to, times the tensor-parallel size."""
TENSOR_SIZES = (1, 2, 4, 8)
NEAR = 0.006
"""Nats; paddings of GPT-2's vocabulary differ by 0.0025 or more."""

_HIDDEN = tuple(sorted({preset["hidden_size"] for name, preset in PRESETS.items() if not name.startswith("tiny")}))
_LOW, _HIGH = math.log(32000), 13.0
"""Range of first losses."""


class Habits(Protocol):
    """How a framework initializes a model; each framework's facts implement it."""

    @property
    def vocabulary_multiple(self) -> int | None: ...
    @property
    def mock_vocabularies(self) -> Mapping[int, str | None]: ...
    @property
    def init_stds(self) -> tuple[float | None, ...]: ...


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """A vocabulary size, and the padded size of its logits."""

    size: int
    owner: str
    padded: int
    tensor: int | None
    """The tensor-parallel size of this padding; None if not padded."""

    @property
    def floor(self) -> float:
        """The loss floor of uniform random tokens."""
        return math.log(self.size)

    @property
    def uniform(self) -> float:
        """The loss of a model with equal logits."""
        return math.log(self.padded)

    def nearest_size(self, loss: float) -> int:
        """The size, padded or not, whose uniform loss is nearer to a loss."""
        return min(self.padded, self.size, key=lambda size: abs(math.log(size) - loss))

    @property
    def words(self) -> str:
        padded = f" padded to {self.padded:,}" if self.padded != self.size else f" of {self.size:,}"
        return f"{self.owner} vocabulary{padded}"


@dataclass(frozen=True, slots=True)
class Declared:
    """What is declared about a model; None means unknown."""

    habits: Habits
    """The defaults of its framework."""
    vocab_size: int | None
    hidden_size: int | None
    tensor: int | None
    std: float | None


@dataclass(frozen=True, slots=True)
class Start:
    """An untrained model."""

    vocabulary: Vocabulary
    hidden: int
    """0 if irrelevant."""
    std: float | None
    """None for fan-in initialization, whose logits have unit variance."""

    @property
    def loss(self) -> float:
        return self.vocabulary.uniform + (0.5 if self.std is None else self.hidden * self.std**2 / 2)

    @property
    def spread(self) -> str:
        return "fan-in initialization" if self.std is None else f"init std {self.std:g}"

    @property
    def words(self) -> str:
        hidden = f" (hidden {self.hidden:,})" if self.hidden else ""
        return f"{self.vocabulary.words} with {self.spread}{hidden}: {self.loss:.4f}"


def padded_vocab_size(vocab_size: int, multiple: int) -> int:
    """The vocabulary rounded up to `multiple`: 128 x tensor parallel in the Megatron family, 1 without padding."""
    return -(-vocab_size // multiple) * multiple


def first_loss(model: Model, init_method_std: float, padded_vocab_size: int) -> float:
    """ln(padded V) + h sigma^2 / 2: logits of an untrained model are N(0, h sigma^2) after the final norm."""
    return math.log(padded_vocab_size) + model.hidden_size * init_method_std**2 / 2


def loss_floor(data: Data, vocab_size: int, samples: int) -> float | None:
    """Entropy of generated data in nats per token; None for a corpus, and for samples that repeat within the run."""
    if data.source == "tokens" or (data.samples is not None and data.samples < samples):
        return None
    from steelyard.trainer.tokens import entropy_rate

    return entropy_rate(data.source, vocab_size)


def candidates(sizes: Iterable[int], habits: Habits, tensor: int | None) -> Iterator[Vocabulary]:
    """These vocabularies as the framework pads them, each size once; all usual paddings if its padding is unknown."""
    multiple, seen = habits.vocabulary_multiple, set()
    tensors: Sequence[int | None] = () if multiple == 1 else TENSOR_SIZES if tensor is None else (tensor,)
    if multiple is None or multiple == 1:
        tensors = (None, *tensors)
    for size in sizes:
        owner = habits.mock_vocabularies.get(size) or VOCABULARIES.get(size, "its own")
        for ranks in tensors:
            padded = padded_vocab_size(size, (multiple or PADDED_TO) * ranks) if ranks else size
            if (size, padded) not in seen:
                seen.add((size, padded))
                yield Vocabulary(size, owner, padded, ranks)


def own_starts(of: Declared) -> list[Start]:
    """Possible starts of a model: declared values, and documented defaults for the rest."""
    return _starts(of, (of.vocab_size,) if of.vocab_size else VOCABULARIES)


def mock_starts(of: Declared) -> list[Start]:
    """Possible starts with the vocabularies that the framework uses without a tokenizer."""
    return _starts(of, (size for size in of.habits.mock_vocabularies if size != of.vocab_size))


def _starts(of: Declared, sizes: Iterable[int]) -> list[Start]:
    return [start for vocabulary in candidates(sizes, of.habits, of.tensor) for start in starts_of(of, vocabulary)]


def starts_of(of: Declared, vocabulary: Vocabulary) -> list[Start]:
    stds = (of.std,) if of.std is not None else of.habits.init_stds
    hidden = (of.hidden_size,) if of.hidden_size else _HIDDEN
    return [Start(vocabulary, size, std) for std in stds for size in (hidden if std is not None else (0,))]


def fitting(starts: Iterable[Start], loss: float) -> list[Start]:
    """Starts that explain a first loss, nearest first."""
    near = (start for start in starts if abs(start.loss - loss) < NEAR)
    return sorted(near, key=lambda start: abs(start.loss - loss))


def share_that_fits(starts: Iterable[Start]) -> float:
    """Share of all first losses that these starts explain."""
    return share_within(((start.loss - NEAR, start.loss + NEAR) for start in starts), _LOW, _HIGH)


def share_within(intervals: Iterable[tuple[float, float]], low: float, high: float) -> float:
    """Share of [low, high] that the intervals cover: the probability that a loss is in one by chance."""
    covered, end = 0.0, low
    for first, last in sorted(intervals):
        covered += max(0.0, min(last, high) - max(first, end))
        end = max(end, min(last, high))
    return covered / (high - low)
