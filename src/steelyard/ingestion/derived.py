"""Values of an imported run that follow from its known ones."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

MADE = {"counting": ("path", "dataset", "samples"), "uniform": ("path", "dataset"), "fixed_batch": ("path", "dataset")}
"""Data keys that generated data does not have, by source."""


def following(values: Mapping[str, Any], world: int | None) -> Iterator[tuple[str, Any]]:
    """Values that follow from the known ones."""
    others = [values.get(f"parallelism.{name}_parallel_size") for name in ("tensor", "pipeline", "context")]
    shared = math.prod(size for size in others if type(size) is int)
    replicas = values.get("parallelism.data_parallel_size")
    if world is not None and all(type(size) is int for size in others) and shared > 0 and world % shared == 0:
        replicas = world // shared
        yield "parallelism.data_parallel_size", replicas
    batch: Any = values.get("training.global_batch_size")
    parts = (replicas, values.get("training.gradient_accumulation_steps"))
    per_step = math.prod(part for part in parts if type(part) is int and part > 0)
    if all(type(count) is int and count > 0 for count in (batch, *parts)) and batch % per_step == 0:
        yield "training.micro_batch_size", batch // per_step
    if values.get("precision.dtype") in ("bf16", "fp32"):  # fp16 alone scales its loss
        yield "precision.loss_scale", None
    heads, width = values.get("model.num_attention_heads"), values.get("model.hidden_size")
    if values.get("model.architecture") == "gpt" and type(heads) is int and heads > 0:  # multi-head attention
        yield "model.num_key_value_heads", heads
        if type(width) is int and width % heads == 0:
            yield "model.head_dim", width // heads
    source = values.get("data.source", "")
    yield from ((f"data.{name}", None) for name in MADE.get(source, ()))
    if source == "fixed_batch" and type(batch) is int:
        yield "data.samples", batch
