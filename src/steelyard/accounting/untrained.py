"""Models as they are documented to start: a first loss is ln(padded vocabulary) + hidden x std^2 / 2."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from steelyard.accounting.vocabularies import VOCABULARIES, Habits, Vocabulary, candidates, share_within
from steelyard.experiment.presets import PRESETS

NEAR = 0.006
"""Nats; two paddings of GPT-2's vocabulary lie 0.0025 and more apart."""

FAN_IN = None
_HIDDEN = tuple(sorted({each["hidden_size"] for name, each in PRESETS.items() if not name.startswith("tiny")}))
_LOW, _HIGH = math.log(32000), 13.0
"""Where first losses of the field lie."""


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


def own_starts(of: Declared) -> list[Start]:
    """What a model of this kind may start at: what is declared binds, the rest is as it is documented."""
    return _starts(of, (of.vocab_size,) if of.vocab_size else VOCABULARIES)


def mock_starts(of: Declared) -> list[Start]:
    """The same with the vocabulary its framework takes where it was given no tokenizer, whatever was declared."""
    return _starts(of, (size for size in of.habits.mock_vocabularies if size != of.vocab_size))


def starts_of(of: Declared, vocabulary: Vocabulary) -> list[Start]:
    """What a model over one vocabulary may start at."""
    stds = (of.std,) if of.std is not None else of.habits.init_stds
    hidden = (of.hidden_size,) if of.hidden_size else _HIDDEN
    return [Start(vocabulary, size, std) for std in stds for size in (hidden if std is not FAN_IN else (0,))]


def fitting(starts: Iterable[Start], loss: float) -> list[Start]:
    """Those that give a first loss, the nearest first."""
    return sorted((one for one in starts if abs(one.loss - loss) < NEAR), key=lambda one: abs(one.loss - loss))


def share_that_fits(starts: Iterable[Start]) -> float:
    """How many of all first losses some of these would explain."""
    return share_within(((one.loss - NEAR, one.loss + NEAR) for one in starts), _LOW, _HIGH)


def _starts(of: Declared, sizes: Iterable[int]) -> list[Start]:
    return [one for each in candidates(sizes, of.habits, of.tensor) for one in starts_of(of, each)]
