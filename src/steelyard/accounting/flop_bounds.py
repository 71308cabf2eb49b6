"""The least and the most FLOPs per token that the known dimensions of a model allow."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from steelyard.accounting.flops import Convention
from steelyard.experiment.experiment import Recompute
from steelyard.experiment.model import Model

NEEDED = ("num_layers", "hidden_size")
"""Dimensions that useful bounds need."""
_HEADS = 64
_WIDTHS = (0.5, 2.0)
"""Width of all query heads / hidden size where it is unknown; public models have 0.8 to 2."""
_FFNS = (1, 8)
"""ffn_hidden_size / hidden_size where it is unknown; Gemma has 8."""
_VOCABULARIES = (2, 1 << 18)


@dataclass(frozen=True, slots=True)
class Extras:
    """Parts of a model beyond a dense transformer, as far as their FLOPs can be bounded."""

    experts: tuple[int, int] | None = None
    """The least and the most width of all experts that a token uses; None without experts."""
    predicted_ahead: int = 0
    gated: bool = False
    partly_attended: bool = False
    """Whether a token may attend to only a part of the tokens before it."""


def bounds(
    dimensions: Mapping[str, Any],
    sequence_length: int,
    conventions: Iterable[Convention],
    recompute: Iterable[Recompute],
    extras: Extras,
) -> tuple[float, float]:
    """The smallest and the largest count by any of these formulas; `NEEDED` must be known."""
    least, most = _smallest(dimensions, extras), _largest(dimensions, extras)
    counts: list[float] = []
    for convention, extent in product(conventions, recompute):

        def count(model: Model, length: int, of: Convention = convention, what: Recompute = extent) -> float:
            return of.flops_per_token(model, length, None, what)

        counts.append(count(least, 1 if extras.partly_attended else sequence_length))
        counts.append(count(most, sequence_length) + _added(most, sequence_length, extras, count))
    return min(counts), max(counts)


def _added(most: Model, length: int, extras: Extras, count: Callable[[Model, int], float]) -> float:
    """The most that gates, and layers that predict further tokens, may add."""
    h, q = most.hidden_size, most.num_attention_heads * most.head_dim
    gates = 6.0 * (most.num_layers + extras.predicted_ahead) * h * q if extras.gated else 0.0
    layer = most.model_copy(update={"num_layers": 1})
    return gates + extras.predicted_ahead * (count(layer, length) + 6.0 * 2 * h * h)


def _smallest(given: Mapping[str, Any], extras: Extras) -> Model:
    h = given["hidden_size"]
    ffn = given.get("ffn_hidden_size") or _FFNS[0] * h
    ffn = min(ffn, extras.experts[0]) if extras.experts else ffn
    return _model(given, "gpt", ffn, max(1, int(_WIDTHS[0] * h)), 1, _VOCABULARIES[0])


def _largest(given: Mapping[str, Any], extras: Extras) -> Model:
    h = given["hidden_size"]
    ffn = given.get("ffn_hidden_size") or _FFNS[1] * h
    ffn = max(ffn, extras.experts[1]) if extras.experts else ffn
    return _model(given, "llama", ffn, int(_WIDTHS[1] * h), None, _VOCABULARIES[1])


def _model(
    given: Mapping[str, Any], architecture: str, ffn: int, all_heads: int, kv_heads: int | None, vocabulary: int
) -> Model:
    """The known dimensions, and these for the others; not validated, since bounds may belong to no real model."""
    heads, width = given.get("num_attention_heads"), given.get("head_dim")
    if heads is None or width is None:
        heads = heads or _HEADS
        width = max(1, all_heads // heads)
    return Model.model_construct(
        architecture=given.get("architecture") or architecture,
        num_layers=given["num_layers"],
        hidden_size=given["hidden_size"],
        ffn_hidden_size=ffn,
        num_attention_heads=heads,
        num_key_value_heads=given.get("num_key_value_heads") or kv_heads or heads,
        head_dim=width,
        vocab_size=given.get("vocab_size") or vocabulary,
        max_position_embeddings=1,
        qkv_bias=False,
        tied_embeddings=False,
    )
