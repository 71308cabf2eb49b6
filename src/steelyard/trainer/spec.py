"""The JSON file that configures the trainer."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from steelyard.trainer.tokens import MADE, Repeating, Source, TokenFile


@dataclass(frozen=True, kw_only=True)
class ModelSpec:
    architecture: Literal["llama", "gpt"]
    num_layers: int
    hidden_size: int
    ffn_hidden_size: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    vocab_size: int
    max_position_embeddings: int
    norm_epsilon: float
    rope_theta: float | None
    rope_scaling: dict[str, Any] | None
    qkv_bias: bool
    tied_embeddings: bool


@dataclass(frozen=True, kw_only=True)
class TrainingSpec:
    seed: int
    micro_batch_size: int
    global_batch_size: int
    sequence_length: int
    steps: int
    learning_rate: float
    min_learning_rate: float
    schedule: Literal["cosine", "linear", "constant"]
    warmup_steps: int
    decay_steps: int | None
    weight_decay: float
    adam_beta1: float
    adam_beta2: float
    adam_epsilon: float
    clip_grad_norm: float | None
    init_method_std: float
    recompute: Literal["none", "full"]


@dataclass(frozen=True, kw_only=True)
class DataSpec:
    source: Literal["uniform", "counting", "markov", "tokens"]
    seed: int
    path: str | None
    train_share: float
    samples: int | None


@dataclass(frozen=True, kw_only=True)
class Spec:
    """Everything that a run depends on, except the number of ranks."""

    model: ModelSpec
    training: TrainingSpec
    data: DataSpec
    device: Literal["cpu", "cuda"]
    """`cuda` includes AMD GPUs in PyTorch."""
    dtype: Literal["fp32", "bf16"]
    grad_reduce_in_fp32: bool
    distributed_optimizer: bool
    compile: bool
    deterministic: bool
    """Use only kernels whose result does not depend on the order of threads."""

    def token_source(self) -> Source:
        data, vocab_size, length = self.data, self.model.vocab_size, self.training.sequence_length
        source: Source
        if data.source == "tokens":
            assert data.path is not None
            source = TokenFile(data.path, vocab_size, length, data.seed, data.train_share)
        else:
            source = MADE[data.source](vocab_size, length, data.seed)
        return source if data.samples is None else Repeating(source, data.samples)


def load(path: Path) -> Spec:
    """Read the file; TypeError with the name of a missing or unknown key."""
    raw = json.loads(path.read_text())
    groups = {"model": ModelSpec, "training": TrainingSpec, "data": DataSpec}
    return Spec(**{key: groups[key](**value) if key in groups else value for key, value in raw.items()})
