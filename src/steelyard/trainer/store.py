"""All weights and gradients of a model in two flat tensors; modules hold views of them.

For bf16 weights, the optimizer keeps the other 16 bits of each fp32 weight.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from steelyard.trainer.model import Decoder, initial_std
from steelyard.trainer.weights import fill_normal

_FILL = 1 << 26
"""Elements initialized at once, so that no fp32 copy of a whole parameter is needed."""


class Piece(NamedTuple):
    """The range of one parameter in the flat tensors."""

    name: str
    start: int
    end: int


class Store:
    """Flat weights and gradients. Parameters with weight decay come first."""

    def __init__(self, model: nn.Module, dtype: torch.dtype, gradient_dtype: torch.dtype, ranks: int) -> None:
        """`model` is on the meta device; its parameters become views of tensors on the default device."""
        named = sorted(model.named_parameters(), key=lambda item: item[1].ndim < 2)
        self.size = sum(parameter.numel() for _, parameter in named)
        self.decayed_end = sum(parameter.numel() for _, parameter in named if parameter.ndim >= 2)
        padded = -(-self.size // ranks) * ranks
        self.weights = torch.zeros(padded, dtype=dtype)
        self.gradients = torch.zeros(padded, dtype=gradient_dtype)
        self.pieces: list[Piece] = []
        end = 0
        for name, meta in named:
            start, end = end, end + meta.numel()
            self.pieces.append(Piece(name, start, end))
            parameter = nn.Parameter(self.weights[start:end].view(meta.shape))
            gradient = self.gradients[start:end].view(meta.shape)
            if gradient_dtype == dtype:
                parameter.grad = gradient  # autograd accumulates here
            else:
                parameter.register_post_accumulate_grad_hook(_add_into(gradient))  # type: ignore[no-untyped-call]
            owner, _, leaf = name.rpartition(".")
            setattr(model.get_submodule(owner), leaf, parameter)

    def initialize(self, model: Decoder, seed: int, std: float, remainder: Tensor | None, start: int) -> None:
        """Draw the weights; `remainder` receives the lower 16 bits from flat position `start` on."""
        for piece in self.pieces:
            piece_std = initial_std(piece.name, model.spec, std)
            for low in range(piece.start, piece.end, _FILL):
                high = min(low + _FILL, piece.end)
                drawn = torch.empty(high - low, dtype=torch.float32)
                if piece_std is None:
                    drawn.fill_(0.0 if piece.name.endswith("bias") else 1.0)
                else:
                    fill_normal(drawn, piece.name, seed, piece_std, start=low - piece.start)
                if remainder is None:
                    self.weights[low:high] = drawn
                    continue
                upper, lower = split(drawn)
                self.weights[low:high] = upper
                mine = max(low, start), min(high, start + remainder.numel())
                if mine[0] < mine[1]:
                    remainder[mine[0] - start : mine[1] - start] = lower[mine[0] - low : mine[1] - low]


def _add_into(total: Tensor) -> Callable[[Tensor], None]:
    def add(parameter: Tensor) -> None:
        assert parameter.grad is not None
        total.add_(parameter.grad)
        parameter.grad = None

    return add


def split(master: Tensor) -> tuple[Tensor, Tensor]:
    """Split fp32 into the nearest bf16 (ties away from zero) and the signed remainder of the bits."""
    bits = master.view(torch.int32)
    upper = (bits + 0x8000) >> 16
    lower = (bits - (upper << 16)).to(torch.int16)
    # Rounding a NaN may overflow into the sign, so NaN becomes the standard NaN.
    upper = torch.where(master.isnan(), 0x7FC0, upper).to(torch.int16)
    return upper.view(torch.bfloat16), lower


def join(upper: Tensor, lower: Tensor) -> Tensor:
    """The inverse of `split`."""
    bits = (upper.view(torch.int16).to(torch.int32) << 16) + lower.to(torch.int32)
    return bits.view(torch.float32)
