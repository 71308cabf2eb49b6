"""All weights and gradients of a model in two flat tensors, of which the modules hold views."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from steelyard.trainer.master import split
from steelyard.trainer.model import Decoder, initial_std
from steelyard.trainer.weights import fill_normal

_FILL = 1 << 26
"""Elements initialised at once, so that no fp32 copy of a whole parameter is needed."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of the flat tensors that belongs to one parameter."""

    name: str
    start: int
    end: int
    decayed: bool


class Store:
    """Flat weights and gradients. Decayed parameters come first, so that decay is a matter of position."""

    def __init__(self, model: nn.Module, dtype: torch.dtype, gradient_dtype: torch.dtype, ranks: int) -> None:
        """`model` is on the meta device; its parameters become views of tensors made on the default device."""
        named = sorted(model.named_parameters(), key=lambda item: item[1].ndim < 2)
        self.pieces: list[Piece] = []
        at = 0
        for name, parameter in named:
            self.pieces.append(Piece(name, at, at + parameter.numel(), decayed=parameter.ndim >= 2))
            at += parameter.numel()
        self.decayed_end = max((piece.end for piece in self.pieces if piece.decayed), default=0)
        self.size = at
        padded = -(-at // ranks) * ranks
        self.weights = torch.zeros(padded, dtype=dtype)
        self.gradients = torch.zeros(padded, dtype=gradient_dtype)
        for piece, (name, meta) in zip(self.pieces, named, strict=True):
            parameter = nn.Parameter(self.weights[piece.start : piece.end].view(meta.shape))
            gradient = self.gradients[piece.start : piece.end].view(meta.shape)
            if gradient_dtype == dtype:
                parameter.grad = gradient  # autograd adds into it
            else:
                parameter.register_post_accumulate_grad_hook(_add_into(gradient))  # type: ignore[no-untyped-call]
            owner, _, leaf = name.rpartition(".")
            setattr(model.get_submodule(owner), leaf, parameter)

    def initialise(self, model: Decoder, seed: int, std: float, remainder: Tensor | None, start: int) -> None:
        """Draw the weights; `remainder` takes the low halves of those from flat position `start` on (see master)."""
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
