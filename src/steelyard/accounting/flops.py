"""Parameters of a model, and FLOPs per token by the one formula we judge with and by the ones frameworks claim.

Notation: L layers, h hidden, q = heads x head_dim, kv = kv_heads x head_dim, f = ffn, s = sequence, V vocabulary.
Matrix products of the layers hold W = L (h (q + 2 kv) + q h + (3 or 2) h f) weights, 3 with SwiGLU. A weight costs
6 FLOP a token (2 forward, 4 backward); attention scores and values cost 12 L q s, half of it under a causal mask.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum, auto
from typing import Any

from pydantic import ValidationError

from steelyard.experiment.experiment import Recompute
from steelyard.experiment.model import Model

NEMO_VOCABULARY = {"llama": 128256, "gpt": 51200}
"""NeMo's formulas hard-code the vocabulary by family, whatever the tokenizer."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """Counts of one model. Tied embeddings are counted once, under `embedding`."""

    embedding: int
    positions: int
    attention_per_layer: int
    ffn_per_layer: int
    norms_per_layer: int
    num_layers: int
    final_norm: int
    output: int

    @property
    def total(self) -> int:
        per_layer = self.attention_per_layer + self.ffn_per_layer + self.norms_per_layer
        return self.embedding + self.positions + self.final_norm + self.output + self.num_layers * per_layer


def parameters(model: Model, vocab_size: int | None = None) -> Parameters:
    """Count `model`, with its vocabulary padded to `vocab_size` where a framework does so."""
    h, f = model.hidden_size, model.ffn_hidden_size
    q, kv = model.num_attention_heads * model.head_dim, model.num_key_value_heads * model.head_dim
    gpt = model.architecture == "gpt"
    norm = 2 * h if gpt else h  # LayerNorm has a bias
    biases = (q + 2 * kv if model.qkv_bias else 0) + (h if gpt else 0)  # the second is the output projection's
    return Parameters(
        embedding=_logit_weights(model, vocab_size),
        positions=model.max_position_embeddings * h if gpt else 0,
        attention_per_layer=h * (q + 2 * kv) + q * h + biases,
        ffn_per_layer=2 * h * f + f + h if gpt else 3 * h * f,
        norms_per_layer=2 * norm,
        num_layers=model.num_layers,
        final_norm=norm,
        output=0 if model.tied_embeddings else _logit_weights(model, vocab_size),
    )


def countable(dimensions: Mapping[str, Any]) -> Model | None:
    """The model that FLOPs are counted from; None where a dimension that a formula counts is missing or cannot be."""
    given = {key: value for key, value in dimensions.items() if value is not None}
    uncounted = {"norm_epsilon": 1e-5, "max_position_embeddings": 1, "qkv_bias": False, "tied_embeddings": False}
    if given.get("architecture") == "llama":
        uncounted["rope_theta"] = 1e4
    try:
        return Model.model_validate({**uncounted, **given})
    except ValidationError:
        return None


def flops_per_token(model: Model, sequence_length: int, vocab_size: int | None = None, *, causal: bool = True) -> float:
    """The causal formula 6 (W + h V) + 6 L q s; recomputation is not work done and is not counted."""
    h, q = model.hidden_size, model.num_attention_heads * model.head_dim
    kv = model.num_key_value_heads * model.head_dim
    layer = h * (q + 2 * kv) + q * h + _ffn_weights(model)
    weights = model.num_layers * layer + _logit_weights(model, vocab_size)
    return 6.0 * weights + _attention(model, sequence_length) / (2 if causal else 1)


class Convention(StrEnum):
    CAUSAL = auto()
    NONCAUSAL = auto()
    NEMO_CAUSAL = auto()
    NEMO_NONCAUSAL = auto()
    TORCHTITAN = auto()
    MEGATRON_DEEPSPEED = auto()
    SIX_N = auto()


COUNT_RECOMPUTATION = frozenset({Convention.MEGATRON_DEEPSPEED})


def flops_by_convention(
    convention: Convention,
    model: Model,
    sequence_length: int,
    vocab_size: int | None = None,
    recompute: Recompute = "none",
) -> float:
    match convention:
        case Convention.CAUSAL | Convention.NONCAUSAL:
            causal = convention == Convention.CAUSAL
            return flops_per_token(model, sequence_length, vocab_size, causal=causal)
        case Convention.NEMO_CAUSAL | Convention.NEMO_NONCAUSAL:
            causal = convention == Convention.NEMO_CAUSAL
            return flops_per_token(model, sequence_length, NEMO_VOCABULARY[model.architecture], causal=causal)
        case Convention.TORCHTITAN:
            counted = parameters(model)
            return 6.0 * (counted.total - counted.embedding) + _attention(model, sequence_length)
        case Convention.SIX_N:
            return 6.0 * parameters(model, vocab_size).total
        case Convention.MEGATRON_DEEPSPEED:
            return _megatron_deepspeed(model, sequence_length, vocab_size, recompute)


def _megatron_deepspeed(model: Model, sequence_length: int, vocab_size: int | None, recompute: Recompute) -> float:
    """Counts recomputation as work, and drops K and V for four or more query heads a group by an integer division."""
    group = model.num_attention_heads // model.num_key_value_heads
    projections = (1 + 2 // group + 1) * model.hidden_size**2
    scores = _attention(model, sequence_length) / 6  # multiply-adds of the forward pass
    forward = model.num_layers * (projections + _ffn_weights(model)) + scores + _logit_weights(model, vocab_size)
    if recompute == "full":
        return 2.0 * 4 * forward
    return 2.0 * 3 * forward + (2.0 * scores if recompute == "selective" else 0.0)


def _ffn_weights(model: Model) -> int:
    return (3 if model.architecture == "llama" else 2) * model.hidden_size * model.ffn_hidden_size


def _logit_weights(model: Model, vocab_size: int | None) -> int:
    return model.hidden_size * (vocab_size or model.vocab_size)


def _attention(model: Model, sequence_length: int) -> float:
    """12 L q s: scores and values of every pair of positions, forward and backward."""
    return 12.0 * model.num_layers * model.num_attention_heads * model.head_dim * sequence_length
