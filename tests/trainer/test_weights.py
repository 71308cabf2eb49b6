"""Initial weights: the same bits everywhere."""

import hashlib
import math

import numpy as np
import pytest
import torch

from steelyard.trainer import weights
from steelyard.trainer.counter import key_of
from steelyard.trainer.weights import fill_normal

pytestmark = pytest.mark.torch

PIECES = (
    ("a", 100_003, 0),
    ("layers.3.attention.q.weight", 1 << 22, 12_345),
    ("embedding.weight", 300_000, 128_256 * 4096 - 300_000),
)
H200 = "cbe6f1fe6f2307f8"
"""The head of the SHA-256 of these pieces as an H200 made them (torch 2.11, CUDA 13)."""


def drawn(name: str, count: int, start: int = 0, std: float = 0.02, seed: int = 42) -> torch.Tensor:
    out = torch.empty(count)
    fill_normal(out, name, seed, std, start)
    return out


def test_the_bits_are_those_an_h200_made() -> None:
    digest = hashlib.sha256()
    for name, count, start in PIECES:
        digest.update(drawn(name, count, start).numpy().tobytes())
    assert digest.hexdigest().startswith(H200)


def test_the_way_a_gpu_draws_them_gives_the_same_bits_here() -> None:
    for name, count, start in PIECES:
        out = torch.empty(count)
        weights._fill_on_gpu(out, key_of("weights", 42, name), start, float(np.float32(0.02 / weights._STD)))
        assert torch.equal(out, drawn(name, count, start))


def test_a_part_is_the_same_wherever_it_starts() -> None:
    whole = drawn("w", 200_000)
    assert torch.equal(whole[70_001:170_000], drawn("w", 99_999, start=70_001))


def test_names_and_seeds_give_their_own_weights() -> None:
    assert not torch.equal(drawn("w", 100), drawn("v", 100))
    assert not torch.equal(drawn("w", 100), drawn("w", 100, seed=43))


def test_they_are_a_bell_of_the_asked_width() -> None:
    found = drawn("w", 1 << 22, std=0.5).double()
    assert float(found.mean()) == pytest.approx(0, abs=5 * 0.5 / math.sqrt(1 << 22))
    assert float(found.std()) == pytest.approx(0.5, rel=2e-3)
    within_one = float((found.abs() < 0.5).double().mean())
    assert within_one == pytest.approx(0.6827, abs=0.02)
    neighbours = float((found[1:] * found[:-1]).mean() / found.var())
    assert neighbours == pytest.approx(0, abs=5 / math.sqrt(1 << 22))
