"""Token sources: each sample depends only on the seed and its index."""

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from steelyard.trainer.counter import below, key_of, stream

Tokens = npt.NDArray[np.int64]

COUNTING_DOCUMENTS = 100_000
COUNTING_LONGEST = 4095
"""Megatron's mock documents have 1 to 4095 tokens, uniformly distributed."""

MARKOV_WEIGHTS = (8, 4, 2, 2)
"""Frequency of a token's four successors, of 16."""


class Source(Protocol):
    def sample(self, index: int) -> Tokens:
        """Sequence length + 1 tokens: inputs without the last token, labels without the first."""
        ...


class Uniform:
    """Independent uniform tokens, like NeMo's mock data; the loss floor is ln V."""

    def __init__(self, vocab_size: int, sequence_length: int, seed: int) -> None:
        self.vocab_size, self.length, self.seed = vocab_size, sequence_length + 1, seed

    def sample(self, index: int) -> Tokens:
        return below(stream(key_of("uniform", self.seed, index), 0, self.length), self.vocab_size)


class Counting:
    """Megatron's mock data: documents that count 1, 2, 3, ... and end at a random length with the last token id."""

    def __init__(self, vocab_size: int, sequence_length: int, seed: int) -> None:
        self.vocab_size, self.sequence_length = vocab_size, sequence_length
        lengths = 1 + below(stream(key_of("counting", seed), 0, COUNTING_DOCUMENTS), COUNTING_LONGEST)
        self.ends = np.cumsum(lengths)
        self.starts = self.ends - lengths

    def sample(self, index: int) -> Tokens:
        at = (index * self.sequence_length + np.arange(self.sequence_length + 1)) % int(self.ends[-1])
        document = np.searchsorted(self.ends, at, side="right")
        counted = (at - self.starts[document] + 1) % self.vocab_size
        return np.where(at == self.ends[document] - 1, self.vocab_size - 1, counted).astype(np.int64)


class Markov:
    """A Markov chain in which each token has four successors with fixed probabilities.

    The chain moves by one of four distinct distances modulo V, and a permutation renames its positions. So every token
    has four distinct successors, all tokens are equally frequent, and the entropy is exactly that of the probabilities.
    A model that learns the V x 4 table reaches the floor; half of the steps go to one successor.
    """

    def __init__(self, vocab_size: int, sequence_length: int, seed: int) -> None:
        if vocab_size <= len(MARKOV_WEIGHTS):
            raise ValueError(f"vocab_size is {vocab_size}, expected more than {len(MARKOV_WEIGHTS)} for markov data")
        self.vocab_size, self.length, self.seed = vocab_size, sequence_length + 1, seed
        self.names = np.argsort(stream(key_of("markov names", seed), 0, vocab_size), kind="stable")
        shuffled = np.argsort(stream(key_of("markov steps", seed), 0, vocab_size - 1), kind="stable")
        self.distances = 1 + shuffled[: len(MARKOV_WEIGHTS)]
        self.odds = np.cumsum(MARKOV_WEIGHTS)

    def sample(self, index: int) -> Tokens:
        drawn = stream(key_of("markov", self.seed, index), 0, self.length)
        steps = self.distances[np.searchsorted(self.odds, below(drawn, sum(MARKOV_WEIGHTS)), side="right")]
        steps[0] = below(drawn[:1], self.vocab_size)[0]
        return self.names[np.cumsum(steps) % self.vocab_size].astype(np.int64)


class TokenFile:
    """Windows of a .npy array of token ids, each used once per epoch, in an order given by the seed."""

    def __init__(self, path: str, vocab_size: int, sequence_length: int, seed: int, share: float) -> None:
        self.path, self.vocab_size, self.sequence_length = path, vocab_size, sequence_length
        try:
            self.tokens = np.load(Path(path), mmap_mode="r", allow_pickle=False)
        except EOFError:
            raise ValueError(f"{path} is empty, expected a .npy file of token ids") from None
        if not isinstance(self.tokens, np.ndarray):
            raise ValueError(f"{path} is an archive, expected a .npy file of token ids")
        if self.tokens.ndim != 1 or not np.issubdtype(self.tokens.dtype, np.integer):
            kind = f"{self.tokens.dtype} of shape {self.tokens.shape}"
            raise ValueError(f"{path} contains {kind}, expected a one-dimensional array of integers")
        self.windows = int((len(self.tokens) - 1) // sequence_length * share)
        if self.windows < 1:
            tokens = f"{len(self.tokens)} tokens{'' if share == 1 else f', {share:.1%} of them for training'}"
            raise ValueError(f"{path} has {tokens}, expected more than {sequence_length} for training")
        self.stride, self.offset = _shuffle(self.windows, seed)

    def sample(self, index: int) -> Tokens:
        start = (index * self.stride + self.offset) % self.windows * self.sequence_length
        window = np.asarray(self.tokens[start : start + self.sequence_length + 1], dtype=np.int64)
        if window.min() < 0 or window.max() >= self.vocab_size:
            wrong = window[(window < 0) | (window >= self.vocab_size)][0]
            raise ValueError(f"{self.path} contains token {wrong}, expected ids below vocab_size {self.vocab_size}")
        return window


class Repeating:
    """The first `samples` of a source, repeated."""

    def __init__(self, source: Source, samples: int) -> None:
        self.source, self.samples = source, samples

    def sample(self, index: int) -> Tokens:
        return self.source.sample(index % self.samples)


MADE: dict[str, Callable[[int, int, int], Source]] = {"uniform": Uniform, "counting": Counting, "markov": Markov}


def entropy_rate(source: str, vocab_size: int) -> float:
    """The loss floor: the smallest expected loss of any model, in nats per token."""
    if source == "uniform":
        return math.log(vocab_size)
    if source == "counting":  # only the length of a document is random
        return math.log(COUNTING_LONGEST) / ((1 + COUNTING_LONGEST) / 2)
    total = sum(MARKOV_WEIGHTS)
    return -sum(weight / total * math.log(weight / total) for weight in MARKOV_WEIGHTS)


def batch(source: Source, indices: Iterable[int]) -> Tokens:
    """Samples as rows."""
    return np.stack([source.sample(index) for index in indices])


def _shuffle(windows: int, seed: int) -> tuple[int, int]:
    """A stride coprime to the number of windows, and an offset: index x stride + offset visits each window once."""
    first, second = below(stream(key_of("order", seed), 0, 2), windows)
    stride = int(first) | 1
    while math.gcd(stride, windows) != 1:
        stride += 1
    return stride, int(second)
