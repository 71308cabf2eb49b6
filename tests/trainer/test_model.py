"""The models, against the same mathematics written out in numpy float64."""

from typing import Any

import numpy as np
import pytest
import torch

from steelyard.trainer.model import Decoder, rotary_tables
from steelyard.trainer.store import Store

pytestmark = pytest.mark.torch


def build(spec: Any, std: float = 0.3, recompute: bool = False) -> tuple[Decoder, dict[str, np.ndarray]]:
    with torch.device("meta"):
        model = Decoder(spec, recompute=recompute)
    store = Store(model, torch.float32, torch.float32, ranks=1)
    store.initialize(model, seed=7, std=std, remainder=None, start=0)
    for name, parameter in model.named_parameters():  # norms and biases that start at constants must matter too
        if parameter.ndim == 1:
            parameter.data += torch.linspace(-0.2, 0.3, parameter.numel()) * (1 + len(name) % 3)
    return model, {name: value.detach().double().numpy() for name, value in model.named_parameters()}


def softmax(scores: np.ndarray) -> np.ndarray:
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def norm(x: np.ndarray, w: dict[str, np.ndarray], name: str, epsilon: float) -> np.ndarray:
    if f"{name}.bias" in w:
        centred = x - x.mean(-1, keepdims=True)
        return (
            centred / np.sqrt((centred**2).mean(-1, keepdims=True) + epsilon) * w[f"{name}.weight"] + w[f"{name}.bias"]
        )
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + epsilon) * w[f"{name}.weight"]


def linear(x: np.ndarray, w: dict[str, np.ndarray], name: str) -> np.ndarray:
    return x @ w[f"{name}.weight"].T + w.get(f"{name}.bias", 0.0)


def rotated(x: np.ndarray, theta: float) -> np.ndarray:
    """Each pair (i, i + half) as a complex number, turned by position x frequency."""
    half = x.shape[-1] // 2
    frequencies = theta ** (-np.arange(half) / half)
    turn = np.exp(1j * np.outer(np.arange(x.shape[0]), frequencies))
    turned = (x[..., :half] + 1j * x[..., half:]) * turn
    return np.concatenate([turned.real, turned.imag], axis=-1)


def forward(spec: Any, w: dict[str, np.ndarray], tokens: np.ndarray) -> np.ndarray:
    """One sequence, head by head."""
    x = w["embedding.weight"][tokens]
    if spec.architecture == "gpt":
        x = x + w["positions.weight"][: len(tokens)]
    group = spec.num_attention_heads // spec.num_key_value_heads
    for layer in range(spec.num_layers):
        at = f"layers.{layer}"
        inner = norm(x, w, f"{at}.attention_norm", spec.norm_epsilon)
        q, k, v = (linear(inner, w, f"{at}.attention.{part}") for part in "qkv")
        heads = []
        for head in range(spec.num_attention_heads):
            mine = slice(head * spec.head_dim, (head + 1) * spec.head_dim)
            shared = slice(head // group * spec.head_dim, (head // group + 1) * spec.head_dim)
            query, key = q[:, mine], k[:, shared]
            if spec.rope_theta:
                query, key = rotated(query, spec.rope_theta), rotated(key, spec.rope_theta)
            scores = query @ key.T / np.sqrt(spec.head_dim)
            scores[np.triu_indices(len(tokens), 1)] = -np.inf
            heads.append(softmax(scores) @ v[:, shared])
        x = x + linear(np.concatenate(heads, axis=-1), w, f"{at}.attention.o")
        inner = norm(x, w, f"{at}.ffn_norm", spec.norm_epsilon)
        up = linear(inner, w, f"{at}.ffn.up")
        if spec.architecture == "gpt":
            middle = 0.5 * up * (1 + np.tanh(np.sqrt(2 / np.pi) * (up + 0.044715 * up**3)))
        else:
            gate = linear(inner, w, f"{at}.ffn.gate")
            middle = gate / (1 + np.exp(-gate)) * up
        x = x + linear(middle, w, f"{at}.ffn.down")
    return norm(x, w, "final_norm", spec.norm_epsilon)


@pytest.mark.parametrize("preset", ["tiny-llama", "tiny-gpt"])
@pytest.mark.parametrize("recompute", [False, True])
def test_the_model_is_its_mathematics(model_spec: Any, preset: str, recompute: bool) -> None:
    spec = model_spec(preset, **({"qkv_bias": True} if preset == "tiny-llama" else {}))
    model, weights = build(spec, recompute=recompute)
    tokens = np.random.default_rng(0).integers(0, spec.vocab_size, (2, 20))
    found = model(torch.from_numpy(tokens)).detach().double().numpy()
    for row in range(2):
        expected = forward(spec, weights, tokens[row])
        assert np.abs(found[row] - expected).max() / np.abs(expected).max() < 1e-5


def test_a_token_sees_only_those_before_it(model_spec: Any) -> None:
    model, _ = build(model_spec())
    tokens = torch.randint(0, 128, (1, 16))
    before = model(tokens)
    tokens[0, 10] = (tokens[0, 10] + 1) % 128
    after = model(tokens)
    assert torch.equal(before[0, :10], after[0, :10])
    assert not torch.equal(before[0, 10:], after[0, 10:])


def test_llama_3_1_stretches_slow_frequencies_and_leaves_fast_ones(model_spec: Any) -> None:
    """The three regimes of the Llama 3.1 release: wavelength < 2048 kept, > 8192 slowed 8 times, smooth between."""
    scaling = {
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    plain = model_spec(head_dim=128, rope_theta=500000.0)
    stretched = model_spec(head_dim=128, rope_theta=500000.0, rope_scaling=scaling)
    cpu = torch.device("cpu")

    def frequencies(spec: Any) -> torch.Tensor:
        cos, sin = rotary_tables(spec, 2, cpu)
        return torch.atan2(sin[1].double(), cos[1].double())

    ratio = frequencies(stretched) / frequencies(plain)
    wavelength = 2 * torch.pi / frequencies(plain)
    assert torch.allclose(ratio[wavelength < 2048], torch.ones(()).double(), rtol=1e-4)
    assert torch.allclose(ratio[wavelength > 8192], torch.tensor(1 / 8).double(), rtol=1e-4)
    between = ratio[(wavelength > 2048) & (wavelength < 8192)]
    assert len(between) > 0
    assert ((between > 1 / 8) & (between < 1)).all()
    assert (ratio.diff() <= 1e-6).all()


def test_tied_embeddings_share_one_parameter(model_spec: Any) -> None:
    model, _ = build(model_spec("tiny-gpt"))
    assert model.output_weight is model.embedding.weight
    untied, _ = build(model_spec("tiny-llama"))
    assert untied.output_weight is not untied.embedding.weight
