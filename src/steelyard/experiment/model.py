"""The dimensions of a decoder-only model."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from steelyard.experiment.policy import ALGORITHM, FREE, JOB

Architecture = Literal["llama", "gpt"]
"""llama: RMSNorm, rotary positions, grouped-query attention, SwiGLU. gpt: LayerNorm, learned positions, multi-head
attention, GELU, biases."""


class Group(BaseModel):
    """Refuses unknown keys, quoted numbers and infinity. The docstring of a field explains it."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


class RopeScaling(Group):
    """How Llama 3.1 scales rotary frequencies for sequences longer than those of the first training."""

    factor: float = Field(gt=0)
    """Factor by which the lowest frequencies are divided."""
    low_freq_factor: float = Field(gt=0)
    """Wavelengths longer than original_max_position_embeddings / this value are scaled by the whole factor."""
    high_freq_factor: float = Field(gt=0)
    """Wavelengths shorter than original_max_position_embeddings / this value are not scaled."""
    original_max_position_embeddings: int = Field(gt=0)
    """Sequence length of the training with unscaled frequencies."""


class Model(Group):
    """The model. `preset` names a known one, whose dimensions can be overridden."""

    preset: Annotated[str | None, FREE] = None
    """A known model; it gives every dimension that is not set here."""
    architecture: Annotated[Architecture, JOB]
    """Type of the layers: llama or gpt."""
    num_layers: Annotated[int, JOB.counted_in("layers")] = Field(gt=0)
    """Number of transformer layers."""
    hidden_size: Annotated[int, JOB] = Field(gt=0)
    """Width of the residual stream."""
    ffn_hidden_size: Annotated[int, JOB] = Field(gt=0)
    """Width inside the feed-forward block."""
    num_attention_heads: Annotated[int, JOB.counted_in("heads")] = Field(gt=0)
    """Number of query heads."""
    num_key_value_heads: Annotated[int, JOB.counted_in("heads")] = Field(gt=0)
    """Number of key and value heads; fewer than query heads is grouped-query attention."""
    head_dim: Annotated[int, JOB] = Field(gt=0)
    """Width of one head."""
    vocab_size: Annotated[int, JOB.counted_in("tokens")] = Field(gt=1)
    """Tokens in the vocabulary, before a framework pads it."""
    max_position_embeddings: Annotated[int, ALGORITHM.counted_in("tokens")] = Field(gt=0)
    """The longest sequence the model has positions for."""
    norm_epsilon: Annotated[float, ALGORITHM] = Field(gt=0)
    """Epsilon of the norms."""
    rope_theta: Annotated[float | None, ALGORITHM] = Field(default=None, gt=0)
    """Base of the rotary frequencies; llama only."""
    rope_scaling: Annotated[RopeScaling | None, ALGORITHM] = None
    """Scaling of rotary frequencies, as in Llama 3.1; null for none."""
    qkv_bias: Annotated[bool, JOB]
    """Whether query, key and value projections have a bias, as in Qwen 2.5."""
    tied_embeddings: Annotated[bool, JOB]
    """Whether the output projection is the token embedding."""

    @model_validator(mode="after")
    def _is_one_architecture(self) -> "Model":
        if self.num_attention_heads % self.num_key_value_heads:
            raise ValueError(
                f"num_attention_heads is {self.num_attention_heads}, "
                f"expected a multiple of num_key_value_heads ({self.num_key_value_heads})"
            )
        if self.architecture == "llama":
            if self.rope_theta is None:
                raise ValueError("rope_theta is missing, expected a number for a llama")
            if self.head_dim % 2:
                raise ValueError(f"head_dim is {self.head_dim}, expected an even number for rotary positions")
        else:
            if self.rope_theta is not None or self.rope_scaling is not None:
                raise ValueError("rope_theta and rope_scaling are set, expected null for a gpt (learned positions)")
            if self.num_key_value_heads != self.num_attention_heads:
                raise ValueError(
                    f"num_key_value_heads is {self.num_key_value_heads}, expected num_attention_heads "
                    f"({self.num_attention_heads}) for a gpt"
                )
        return self
