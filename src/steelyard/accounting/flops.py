"""Parameters of a model, and FLOPs per token by our formula and by formulas that several frameworks share.

Notation: L layers, h hidden, q = heads x head_dim, kv = kv_heads x head_dim, f = ffn, s = sequence, V vocabulary.
Matrix products of the layers have W = L (h (q + 2 kv) + q h + (3 or 2) h f) weights, 3 with SwiGLU. A weight costs
6 FLOP per token (2 forward, 4 backward); attention scores and values cost 12 L q s, half of it under a causal mask.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import ValidationError

from steelyard.experiment.experiment import Recompute
from steelyard.experiment.model import Model


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
    """Count the parameters of `model`, with its vocabulary padded to `vocab_size` if given."""
    h, f = model.hidden_size, model.ffn_hidden_size
    q, kv = model.num_attention_heads * model.head_dim, model.num_key_value_heads * model.head_dim
    gpt = model.architecture == "gpt"
    norm = 2 * h if gpt else h  # LayerNorm has a bias
    biases = (q + 2 * kv if model.qkv_bias else 0) + (h if gpt else 0)  # the second is the output projection's
    return Parameters(
        embedding=logit_weights(model, vocab_size),
        positions=model.max_position_embeddings * h if gpt else 0,
        attention_per_layer=h * (q + 2 * kv) + q * h + biases,
        ffn_per_layer=2 * h * f + f + h if gpt else 3 * h * f,
        norms_per_layer=2 * norm,
        num_layers=model.num_layers,
        final_norm=norm,
        output=0 if model.tied_embeddings else logit_weights(model, vocab_size),
    )


def countable(dimensions: Mapping[str, Any], padded_vocab_size: int | None = None) -> Model | None:
    """The model that FLOPs are counted from; None if a dimension that the formula needs is missing or invalid.

    The padded vocabulary stands for the vocabulary where only that is known.
    """
    try:
        return Model.model_validate(_with_uncounted(dimensions, padded_vocab_size))
    except ValidationError:
        return None


def missing_dimensions(dimensions: Mapping[str, Any], padded_vocab_size: int | None = None) -> tuple[str, ...]:
    """Settings that make a model countable, such as `model.head_dim=N`; a preset if its shape is unknown.

    Empty if the model is countable, or has a part that the formula does not count.
    """
    try:
        Model.model_validate(_with_uncounted(dimensions, padded_vocab_size))
    except ValidationError as invalid:
        errors = invalid.errors()
        if any(error["type"] != "missing" for error in errors):
            return ()
        missing = [str(error["loc"][0]) for error in errors]
    else:
        return ()
    if {"vocab_size", *missing}.issuperset(_SHAPE):
        return ("model.preset=NAME",)
    return tuple(f"model.{key}={'NAME' if key == 'architecture' else 'N'}" for key in missing)


_SHAPE = ("architecture", "num_layers", "hidden_size", "ffn_hidden_size", "num_attention_heads")


def _with_uncounted(dimensions: Mapping[str, Any], padded_vocab_size: int | None) -> dict[str, Any]:
    """The known dimensions, with any value for those that the formula does not use."""
    given = {key: value for key, value in dimensions.items() if value is not None}
    if padded_vocab_size is not None:
        given.setdefault("vocab_size", padded_vocab_size)
    uncounted = {"norm_epsilon": 1e-5, "max_position_embeddings": 1, "qkv_bias": False, "tied_embeddings": False}
    if given.get("architecture") == "llama":
        uncounted["rope_theta"] = 1e4
    elif given.get("rope_theta") is not None:  # a gpt with rotary positions has no embedding of positions
        given = {key: value for key, value in given.items() if not key.startswith("rope_")} | {
            "max_position_embeddings": 1
        }
    return {**uncounted, **given}


def flops_per_token(model: Model, sequence_length: int, vocab_size: int | None = None, *, causal: bool = True) -> float:
    """The causal formula 6 (W + h V) + 6 L q s; recomputation is not counted."""
    h, q = model.hidden_size, model.num_attention_heads * model.head_dim
    kv = model.num_key_value_heads * model.head_dim
    layer = h * (q + 2 * kv) + q * h + ffn_weights(model)
    weights = model.num_layers * layer + logit_weights(model, vocab_size)
    return 6.0 * weights + attention_flops(model, sequence_length) / (2 if causal else 1)


Count = Callable[[Model, int, int | None, Recompute], float]
"""FLOPs of a token, from the model, its sequence length, its padded vocabulary and what is recomputed."""


@dataclass(frozen=True, slots=True)
class Convention:
    """A way of counting the FLOPs of a token. Each framework's facts have its own; here are those many share."""

    name: str
    """As verdicts print it."""
    count: Count
    counts_recomputation: bool = False

    CAUSAL: ClassVar["Convention"]
    NONCAUSAL: ClassVar["Convention"]
    SIX_N: ClassVar["Convention"]

    def flops_per_token(
        self, model: Model, sequence_length: int, vocab_size: int | None = None, recompute: Recompute = "none"
    ) -> float:
        return self.count(model, sequence_length, vocab_size, recompute)


Convention.CAUSAL = Convention("causal", lambda model, length, vocab, _: flops_per_token(model, length, vocab))
Convention.NONCAUSAL = Convention(
    "noncausal", lambda model, length, vocab, _: flops_per_token(model, length, vocab, causal=False)
)
Convention.SIX_N = Convention("six_n", lambda model, length, vocab, _: 6.0 * parameters(model, vocab).total)
SHARED = (Convention.CAUSAL, Convention.NONCAUSAL, Convention.SIX_N)


def ffn_weights(model: Model) -> int:
    return (3 if model.architecture == "llama" else 2) * model.hidden_size * model.ffn_hidden_size


def logit_weights(model: Model, vocab_size: int | None) -> int:
    return model.hidden_size * (vocab_size or model.vocab_size)


def attention_flops(model: Model, sequence_length: int) -> float:
    """12 L q s: scores and values of every pair of positions, forward and backward."""
    return 12.0 * model.num_layers * model.num_attention_heads * model.head_dim * sequence_length
