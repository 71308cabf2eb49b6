"""FLOPs per token of forward and backward, by the one formula we judge with and by the ones frameworks claim.

Notation: L layers, h hidden, q = heads x head_dim, kv = kv_heads x head_dim, f = ffn, s = sequence, V vocabulary.
Matrix products of the layers hold W = L (h (q + 2 kv) + q h + (3 or 2) h f) weights, 3 with SwiGLU. A weight costs
6 FLOP a token (2 forward, 4 backward); attention scores and values cost 12 L q s, half of it under a causal mask.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum, auto
from typing import Any

from pydantic import ValidationError

from steelyard.accounting.parameters import parameters
from steelyard.experiment.experiment import Recompute
from steelyard.experiment.model import Model

NEMO_VOCABULARY = {"llama": 128256, "gpt": 51200}
"""NeMo's formulas hard-code the vocabulary by family, whatever the tokenizer."""


def countable(dimensions: Mapping[str, Any]) -> Model | None:
    """The model of the dimensions FLOPs are counted from; what no formula counts stands in where it is not known.

    None where a dimension that counts is missing or cannot be.
    """
    given = {key: value for key, value in dimensions.items() if value is not None}
    silent: dict[str, Any] = {"norm_epsilon": 1e-5, "max_position_embeddings": 1, "qkv_bias": False}
    silent["tied_embeddings"] = False
    if given.get("architecture") == "llama":
        silent["rope_theta"] = 1e4
    try:
        return Model.model_validate({**silent, **given})
    except ValidationError:
        return None


def flops_per_token(model: Model, sequence_length: int, vocab_size: int | None = None) -> float:
    """The causal formula 6 (W + h V) + 6 L q s; recomputation is not work done and is not counted."""
    return 6.0 * (_layer_weights(model) + _logit_weights(model, vocab_size)) + _attention(model, sequence_length) / 2


def _noncausal(model: Model, sequence_length: int, vocab_size: int | None, recompute: Recompute) -> float:
    return 6.0 * (_layer_weights(model) + _logit_weights(model, vocab_size)) + _attention(model, sequence_length)


def _causal(model: Model, sequence_length: int, vocab_size: int | None, recompute: Recompute) -> float:
    return flops_per_token(model, sequence_length, vocab_size)


def _nemo_causal(model: Model, sequence_length: int, vocab_size: int | None, recompute: Recompute) -> float:
    return flops_per_token(model, sequence_length, NEMO_VOCABULARY[model.architecture])


def _nemo_noncausal(model: Model, sequence_length: int, vocab_size: int | None, recompute: Recompute) -> float:
    return _noncausal(model, sequence_length, NEMO_VOCABULARY[model.architecture], recompute)


def _torchtitan(model: Model, sequence_length: int, vocab_size: int | None, recompute: Recompute) -> float:
    counted = parameters(model)
    return 6.0 * (counted.total - counted.embedding) + _attention(model, sequence_length)


def _megatron_deepspeed(model: Model, sequence_length: int, vocab_size: int | None, recompute: Recompute) -> float:
    """Counts recomputation as work, and drops K and V for four or more query heads a group by an integer division."""
    layers, h = model.num_layers, model.hidden_size
    group = model.num_attention_heads // model.num_key_value_heads
    projections = layers * (1 + 2 // group + 1) * h * h
    ffn = layers * _ffn_matrices(model) * h * model.ffn_hidden_size
    scores = _attention(model, sequence_length) / 6  # multiply-adds of the forward pass
    forward = projections + scores + ffn + _logit_weights(model, vocab_size)
    if recompute == "full":
        return 2.0 * 4 * forward
    return 2.0 * 3 * forward + (2.0 * scores if recompute == "selective" else 0.0)


def _six_n(model: Model, sequence_length: int, vocab_size: int | None, recompute: Recompute) -> float:
    return 6.0 * parameters(model, vocab_size).total


class Convention(StrEnum):
    """What frameworks mean by FLOPs, by its name."""

    CAUSAL = auto()
    NONCAUSAL = auto()
    NEMO_CAUSAL = auto()
    NEMO_NONCAUSAL = auto()
    TORCHTITAN = auto()
    MEGATRON_DEEPSPEED = auto()
    SIX_N = auto()


COUNT_RECOMPUTATION = frozenset({Convention.MEGATRON_DEEPSPEED})
"""Those that count recomputation as work."""

_FORMULAS: Mapping[Convention, Callable[[Model, int, int | None, Recompute], float]] = {
    Convention.CAUSAL: _causal,
    Convention.NONCAUSAL: _noncausal,
    Convention.NEMO_CAUSAL: _nemo_causal,
    Convention.NEMO_NONCAUSAL: _nemo_noncausal,
    Convention.TORCHTITAN: _torchtitan,
    Convention.MEGATRON_DEEPSPEED: _megatron_deepspeed,
    Convention.SIX_N: _six_n,
}
"""(model, sequence length, padded vocabulary or None, recompute) to FLOP a token."""


def flops_by_convention(
    convention: Convention,
    model: Model,
    sequence_length: int,
    vocab_size: int | None = None,
    recompute: Recompute = "none",
) -> float:
    """FLOPs per token as the named convention counts them."""
    return _FORMULAS[convention](model, sequence_length, vocab_size, recompute)


def _ffn_matrices(model: Model) -> int:
    return 3 if model.architecture == "llama" else 2


def _layer_weights(model: Model) -> int:
    h = model.hidden_size
    q = model.num_attention_heads * model.head_dim
    kv = model.num_key_value_heads * model.head_dim
    return model.num_layers * (h * (q + 2 * kv) + q * h + _ffn_matrices(model) * h * model.ffn_hidden_size)


def _logit_weights(model: Model, vocab_size: int | None) -> int:
    return model.hidden_size * (vocab_size or model.vocab_size)


def _attention(model: Model, sequence_length: int) -> float:
    """12 L q s: scores and values of every pair of positions, forward and backward."""
    return 12.0 * model.num_layers * model.num_attention_heads * model.head_dim * sequence_length
