"""What losses tell of a model and its data: vocabularies of the field, how an untrained model starts, and floors."""

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
"""Times the tensor-parallel size; Megatron and all that stand on it, and so what one that is not known may do."""
TENSOR_SIZES = (1, 2, 4, 8)
NEAR = 0.006
"""Nats; two paddings of GPT-2's vocabulary lie 0.0025 and more apart."""
MOCK_FLOORS = {"counting": math.log(4095) / 2048}
"""Nats a token that Megatron's mock data cannot be learnt below: it counts 1, 2, 3 … and only where a document of 1 to
4095 tokens ends is not to be foreseen (megatron/core/datasets/gpt_dataset.py, MockGPTLowLevelDataset)."""

_HIDDEN = tuple(sorted({each["hidden_size"] for name, each in PRESETS.items() if not name.startswith("tiny")}))
_LOW, _HIGH = math.log(32000), 13.0
"""Where first losses of the field lie."""


class Habits(Protocol):
    """What a framework does to a model that nobody has trained yet; the facts of each framework have them."""

    @property
    def vocabulary_multiple(self) -> int | None: ...
    @property
    def mock_vocabularies(self) -> Mapping[int, str | None]: ...
    @property
    def init_stds(self) -> tuple[float | None, ...]: ...


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


@dataclass(frozen=True, slots=True)
class Declared:
    """What is known of a model; None is not."""

    habits: Habits
    """What its framework does where nothing is declared."""
    vocab_size: int | None
    hidden_size: int | None
    tensor: int | None
    std: float | None


@dataclass(frozen=True, slots=True)
class Start:
    """A model before it has learnt anything."""

    vocabulary: Vocabulary
    hidden: int
    """0 where it does not matter."""
    std: float | None
    """None where weights start by fan-in, whose logits have unit spread."""

    @property
    def loss(self) -> float:
        return self.vocabulary.uniform + (0.5 if self.std is None else self.hidden * self.std**2 / 2)

    @property
    def spread(self) -> str:
        return "weights started by fan-in" if self.std is None else f"an init std of {self.std:g}"

    @property
    def words(self) -> str:
        hidden = f" (hidden {self.hidden:,})" if self.hidden else ""
        return f"{self.vocabulary.words} with {self.spread}{hidden}: {self.loss:.4f}"


def padded_vocab_size(vocab_size: int, multiple: int) -> int:
    """The vocabulary rounded up to `multiple`: 128 x tensor parallel in the Megatron family, 1 where none is padded."""
    return -(-vocab_size // multiple) * multiple


def first_loss(model: Model, init_method_std: float, padded_vocab_size: int) -> float:
    """ln(V padded) + h sigma^2 / 2: logits of an untrained model are N(0, h sigma^2) after the final norm."""
    return math.log(padded_vocab_size) + model.hidden_size * init_method_std**2 / 2


def loss_floor(data: Data, vocab_size: int, samples: int) -> float | None:
    """The entropy rate of a made source in nats a token; None for a corpus, and for samples that repeat by then."""
    if data.source == "tokens" or (data.samples is not None and data.samples < samples):
        return None
    from steelyard.trainer.tokens import entropy_rate

    return entropy_rate(data.source, vocab_size)


def candidates(sizes: Iterable[int], habits: Habits, tensor: int | None) -> Iterator[Vocabulary]:
    """These vocabularies as a framework pads them, each size once; every usual padding where that is not known."""
    multiple, seen = habits.vocabulary_multiple, set()
    tensors: Sequence[int | None] = () if multiple == 1 else TENSOR_SIZES if tensor is None else (tensor,)
    if multiple is None or multiple == 1:
        tensors = (None, *tensors)
    for size in sizes:
        whose = habits.mock_vocabularies.get(size) or VOCABULARIES.get(size, "its own")
        for ranks in tensors:
            padded = padded_vocab_size(size, (multiple or PADDED_TO) * ranks) if ranks else size
            if (size, padded) not in seen:
                seen.add((size, padded))
                yield Vocabulary(size, whose, padded, ranks)


def own_starts(of: Declared) -> list[Start]:
    """What a model of this kind may start at: what is declared binds, the rest is as it is documented."""
    return _starts(of, (of.vocab_size,) if of.vocab_size else VOCABULARIES)


def mock_starts(of: Declared) -> list[Start]:
    """The same with the vocabulary its framework takes where it was given no tokenizer, whatever was declared."""
    return _starts(of, (size for size in of.habits.mock_vocabularies if size != of.vocab_size))


def _starts(of: Declared, sizes: Iterable[int]) -> list[Start]:
    return [start for each in candidates(sizes, of.habits, of.tensor) for start in starts_of(of, each)]


def starts_of(of: Declared, vocabulary: Vocabulary) -> list[Start]:
    stds = (of.std,) if of.std is not None else of.habits.init_stds
    hidden = (of.hidden_size,) if of.hidden_size else _HIDDEN
    return [Start(vocabulary, size, std) for std in stds for size in (hidden if std is not None else (0,))]


def fitting(starts: Iterable[Start], loss: float) -> list[Start]:
    """Those that give a first loss, the nearest first."""
    near = (start for start in starts if abs(start.loss - loss) < NEAR)
    return sorted(near, key=lambda start: abs(start.loss - loss))


def share_that_fits(starts: Iterable[Start]) -> float:
    """How many of all first losses some of these would explain."""
    return share_within(((start.loss - NEAR, start.loss + NEAR) for start in starts), _LOW, _HIGH)


def share_within(places: Iterable[tuple[float, float]], low: float, high: float) -> float:
    """How much of a stretch some intervals cover together: how often a loss would be in one by chance."""
    covered, end = 0.0, low
    for first, last in sorted(places):
        covered += max(0.0, min(last, high) - max(first, end))
        end = max(end, min(last, high))
    return covered / (high - low)
