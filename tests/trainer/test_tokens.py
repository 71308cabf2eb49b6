"""Token sources: functions of seed and index, with the entropy they claim."""

import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from steelyard.trainer.counter import below, key_of, stream
from steelyard.trainer.tokens import MADE, Counting, Markov, Repeating, TokenFile, Uniform, batch, entropy_rate

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("name", MADE)
def test_a_sample_depends_on_seed_and_index_alone(name: str) -> None:
    one, other = MADE[name](256, 64, 42), MADE[name](256, 64, 42)
    for index in (9, 3, 10**12):
        other.sample(index + 1)
        assert np.array_equal(one.sample(index), other.sample(index))
    assert not np.array_equal(one.sample(3), one.sample(4))
    assert not np.array_equal(one.sample(300), MADE[name](256, 64, 43).sample(300))


@pytest.mark.parametrize("name", MADE)
def test_tokens_are_in_the_vocabulary_and_one_more_than_the_sequence(name: str) -> None:
    tokens = batch(MADE[name](97, 50, 1), range(200))
    assert tokens.shape == (200, 51)
    assert tokens.min() >= 0
    assert tokens.max() < 97


def test_the_streams_are_what_they_were() -> None:
    """A change of these breaks the comparison of runs made before and after it."""
    assert stream(0, 0, 3).tolist() == [16294208416658607535, 7960286522194355700, 487617019471545679]  # SplitMix64
    assert stream(0, 2, 1).tolist() == [487617019471545679]
    assert Uniform(50257, 4, 42).sample(0).tolist() == [39620, 2941, 27779, 17648, 17031]
    assert Markov(50257, 4, 42).sample(0).tolist() == [19076, 31792, 45487, 20784, 9982]


def test_uniform_tokens_are_uniform() -> None:
    tokens = batch(Uniform(64, 1023, 7), range(64)).ravel()
    expected = len(tokens) / 64
    chi_square = float(((np.bincount(tokens, minlength=64) - expected) ** 2 / expected).sum())
    assert chi_square < 63 + 5 * math.sqrt(2 * 63)


def test_counting_documents_count_and_end_with_the_last_id() -> None:
    vocabulary = 128256
    source = Counting(vocabulary, 2048, 0)
    stream_of_tokens = np.concatenate([source.sample(index)[:-1] for index in range(2000)])
    ends = np.flatnonzero(stream_of_tokens == vocabulary - 1)
    assert np.mean(np.diff(ends)) == pytest.approx(2048, rel=0.05)
    assert np.diff(ends).min() >= 1
    assert np.diff(ends).max() <= 4095
    for low, high in pairwise(ends[:200]):
        assert stream_of_tokens[low + 1 : high].tolist() == list(range(1, high - low))


def test_consecutive_counting_samples_are_one_stream() -> None:
    source = Counting(512, 64, 3)
    assert source.sample(5)[-1] == source.sample(6)[0]


def test_markov_s_entropy_rate_is_that_of_its_transitions() -> None:
    """Estimated from the tokens themselves: four successors a token, with the odds that make the rate."""
    vocabulary = 32
    tokens = batch(Markov(vocabulary, 4095, 5), range(256))
    counts = np.zeros((vocabulary, vocabulary))
    np.add.at(counts, (tokens[:, :-1].ravel(), tokens[:, 1:].ravel()), 1)
    assert ((counts > 0).sum(axis=1) == 4).all()
    odds = counts / counts.sum(axis=1, keepdims=True)
    frequency = counts.sum(axis=1) / counts.sum()
    entropy = -(frequency[:, None] * odds * np.log(np.where(odds > 0, odds, 1))).sum()
    assert entropy == pytest.approx(entropy_rate("markov", vocabulary), rel=1e-3)
    assert frequency == pytest.approx(np.full(vocabulary, 1 / vocabulary), rel=0.05)


def test_markov_needs_more_tokens_than_successors() -> None:
    with pytest.raises(ValueError, match="vocab_size is 4, expected more than 4"):
        Markov(4, 8, 0)


def test_a_token_file_is_visited_once_an_epoch_in_an_order_of_the_seed(tmp_path: Path) -> None:
    path = tmp_path / "tokens.npy"
    np.save(path, np.arange(1001, dtype=np.uint16))
    source = TokenFile(str(path), 2000, 10, seed=1, share=1.0)
    starts = [int(source.sample(index)[0]) for index in range(100)]
    assert sorted(starts) == list(range(0, 1000, 10))
    assert starts != sorted(starts)
    assert source.sample(100).tolist() == source.sample(0).tolist()
    assert TokenFile(str(path), 2000, 10, seed=2, share=1.0).sample(0).tolist() != source.sample(0).tolist()
    first_half = TokenFile(str(path), 2000, 10, seed=1, share=0.5)
    assert max(int(first_half.sample(index)[0]) for index in range(50)) == 490


@pytest.mark.parametrize(
    ("array", "says"),
    [
        (np.zeros(5, dtype=np.int32), "expected more than 10"),
        (np.zeros(50, dtype=np.float32), "expected a one-dimensional array of integers"),
        (np.zeros((5, 50), dtype=np.int32), "expected a one-dimensional array of integers"),
    ],
)
def test_a_file_that_cannot_be_trained_on_is_refused(tmp_path: Path, array: np.ndarray, says: str) -> None:
    path = tmp_path / "tokens.npy"
    np.save(path, array)
    with pytest.raises(ValueError, match=says):
        TokenFile(str(path), 100, 10, seed=1, share=1.0)


def test_a_token_outside_the_vocabulary_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tokens.npy"
    np.save(path, np.full(50, 128, dtype=np.int32))
    with pytest.raises(ValueError, match="contains token 128, expected ids below vocab_size 128"):
        TokenFile(str(path), 128, 10, seed=1, share=1.0).sample(0)


def test_samples_repeat_after_as_many_as_were_asked() -> None:
    source = Repeating(Uniform(100, 8, 1), 3)
    assert source.sample(7).tolist() == Uniform(100, 8, 1).sample(1).tolist()


def test_keys_of_different_names_differ() -> None:
    assert len({key_of("weights", seed, name) for seed in range(10) for name in "abcdef"}) == 60
    assert below(stream(1, 0, 1000), 7).max() == 6
