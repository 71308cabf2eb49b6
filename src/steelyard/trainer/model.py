"""Decoder-only Llama and GPT-3 in plain PyTorch; the loss needs only a slice of the logits at a time."""

import math
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from steelyard.trainer.spec import ModelSpec

_LOGITS_AT_ONCE = 1 << 28
"""Elements of one slice: 0.5 GiB in bf16, 1 GiB in fp32."""


def rotary_tables(spec: ModelSpec, length: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Cosines and sines of each position and frequency, with Llama 3.1's scaling if the model has it."""
    assert spec.rope_theta is not None
    exponents = torch.arange(0, spec.head_dim, 2, dtype=torch.float64) / spec.head_dim
    frequencies = spec.rope_theta**-exponents
    if spec.rope_scaling is not None:
        frequencies = _stretched(frequencies, **spec.rope_scaling)
    angles = torch.outer(torch.arange(length, dtype=torch.float64), frequencies)
    return angles.cos().float().to(device), angles.sin().float().to(device)


def _stretched(
    frequencies: Tensor,
    factor: float,
    low_freq_factor: float,
    high_freq_factor: float,
    original_max_position_embeddings: int,
) -> Tensor:
    """Divide low frequencies by `factor`, keep high ones, interpolate between (Llama 3.1 release)."""
    turns = original_max_position_embeddings * frequencies / (2 * math.pi)
    smooth = ((turns - low_freq_factor) / (high_freq_factor - low_freq_factor)).clamp(0, 1)
    return frequencies * ((1 - smooth) / factor + smooth)


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate pairs (i, i + half) of each head, in fp32, since bf16 angles are too coarse for distant positions."""
    first, second = x.float().chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1).to(x.dtype)


class Attention(nn.Module):
    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.head_dim = spec.head_dim
        queries, keys = spec.num_attention_heads * spec.head_dim, spec.num_key_value_heads * spec.head_dim
        self.q = nn.Linear(spec.hidden_size, queries, bias=spec.qkv_bias)
        self.k = nn.Linear(spec.hidden_size, keys, bias=spec.qkv_bias)
        self.v = nn.Linear(spec.hidden_size, keys, bias=spec.qkv_bias)
        self.o = nn.Linear(queries, spec.hidden_size, bias=spec.architecture == "gpt")
        self.grouped = spec.num_key_value_heads != spec.num_attention_heads

    def forward(self, x: Tensor, rotary: tuple[Tensor, Tensor] | None) -> Tensor:
        heads = (*x.shape[:2], -1, self.head_dim)
        q, k, v = (project(x).view(heads).transpose(1, 2) for project in (self.q, self.k, self.v))
        if rotary is not None:
            q, k = _rotate(q, *rotary), _rotate(k, *rotary)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.grouped)
        return cast(Tensor, self.o(mixed.transpose(1, 2).flatten(2)))


class SwiGLU(nn.Module):
    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.gate = nn.Linear(spec.hidden_size, spec.ffn_hidden_size, bias=False)
        self.up = nn.Linear(spec.hidden_size, spec.ffn_hidden_size, bias=False)
        self.down = nn.Linear(spec.ffn_hidden_size, spec.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return cast(Tensor, self.down(F.silu(self.gate(x)) * self.up(x)))


class Gelu(nn.Module):
    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.up = nn.Linear(spec.hidden_size, spec.ffn_hidden_size)
        self.down = nn.Linear(spec.ffn_hidden_size, spec.hidden_size)

    def forward(self, x: Tensor) -> Tensor:
        return cast(Tensor, self.down(F.gelu(self.up(x), approximate="tanh")))


def _norm(spec: ModelSpec) -> nn.Module:
    kind = nn.LayerNorm if spec.architecture == "gpt" else nn.RMSNorm
    return kind(spec.hidden_size, eps=spec.norm_epsilon)


class Layer(nn.Module):
    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.attention_norm = _norm(spec)
        self.attention = Attention(spec)
        self.ffn_norm = _norm(spec)
        self.ffn = Gelu(spec) if spec.architecture == "gpt" else SwiGLU(spec)

    def forward(self, x: Tensor, rotary: tuple[Tensor, Tensor] | None) -> Tensor:
        x = x + self.attention(self.attention_norm(x), rotary)
        return cast(Tensor, x + self.ffn(self.ffn_norm(x)))


class Decoder(nn.Module):
    """Tokens to the hidden states before the output projection."""

    def __init__(self, spec: ModelSpec, recompute: bool) -> None:
        super().__init__()
        self.spec, self.recompute, length = spec, recompute, spec.max_position_embeddings
        self.embedding = nn.Embedding(spec.vocab_size, spec.hidden_size)
        self.positions = nn.Embedding(length, spec.hidden_size) if spec.architecture == "gpt" else None
        self.layers = nn.ModuleList(Layer(spec) for _ in range(spec.num_layers))
        self.final_norm = _norm(spec)
        self.output = None if spec.tied_embeddings else nn.Linear(spec.hidden_size, spec.vocab_size, bias=False)
        self._rotary: tuple[Tensor, Tensor] | None = None

    @property
    def output_weight(self) -> Tensor:
        return self.embedding.weight if self.output is None else self.output.weight

    def forward(self, tokens: Tensor) -> Tensor:
        x = cast(Tensor, self.embedding(tokens))
        if self.positions is not None:
            x = x + self.positions.weight[: tokens.shape[1]]
        elif self._rotary is None:
            self._rotary = rotary_tables(self.spec, tokens.shape[1], tokens.device)
        for layer in self.layers:
            if self.recompute:
                x = cast(Tensor, checkpoint(layer, x, self._rotary, use_reentrant=False))
            else:
                x = layer(x, self._rotary)
        return cast(Tensor, self.final_norm(x))


def initial_std(name: str, spec: ModelSpec, std: float) -> float | None:
    """Standard deviation of a parameter's initial weights; None if it starts with a constant.

    Projections into the residual stream are scaled by 1 / sqrt(2 layers), as GPT-2 and Megatron do.
    """
    if "norm" in name or name.endswith("bias"):
        return None
    return std / math.sqrt(2 * spec.num_layers) if name.endswith(("attention.o.weight", "ffn.down.weight")) else std


class _SlicedCrossEntropy(torch.autograd.Function):
    """Computes gradients in the forward pass, by slices of tokens, so that the full logits never exist."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, labels: Tensor, scale: float, rows: int) -> Tensor:
        total = torch.zeros((), dtype=torch.float32, device=hidden.device)
        hidden_grad = torch.empty_like(hidden)
        weight_grad = torch.zeros_like(weight)
        for at in range(0, len(hidden), rows):
            part = slice(at, at + rows)
            logits = (hidden[part] @ weight.T).float()
            log_sum = torch.logsumexp(logits, dim=-1)
            label_logits = logits.gather(1, labels[part, None])
            total += (log_sum - label_logits[:, 0]).sum()
            gradient = logits.sub_(log_sum[:, None]).exp_()
            gradient.scatter_(1, labels[part, None], gradient.gather(1, labels[part, None]) - 1.0)
            gradient = gradient.mul_(scale).to(hidden.dtype)
            hidden_grad[part] = gradient @ weight
            weight_grad.addmm_(gradient.T, hidden[part])
        ctx.save_for_backward(hidden_grad, weight_grad)
        return total * scale

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        hidden_grad, weight_grad = ctx.saved_tensors
        return hidden_grad.mul_(grads[0]), weight_grad.mul_(grads[0]), None, None, None


def scaled_loss(hidden: Tensor, weight: Tensor, labels: Tensor, scale: float, rows: int | None = None) -> Tensor:
    """`scale` times the sum of token losses, in fp32, `rows` tokens at a time."""
    rows = rows or max(1, _LOGITS_AT_ONCE // weight.shape[0])
    apply = cast(Any, _SlicedCrossEntropy).apply
    return cast(Tensor, apply(hidden.flatten(0, 1), weight, labels.flatten(), scale, rows))
