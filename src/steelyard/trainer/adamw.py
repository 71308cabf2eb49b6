"""AdamW over a range of a flat store, always in fp32."""

import torch
from torch import Tensor

from steelyard.trainer.spec import TrainingSpec
from steelyard.trainer.store import Store, join, split

_CHUNK = 1 << 25
"""Elements per update, which limits fp32 temporaries to a few hundred MiB."""


class AdamW:
    """Loshchilov and Hutter, "Decoupled Weight Decay Regularization" (2019), on elements `start` to `end` of the store.

    A rank with a sharded optimizer owns a range, otherwise all elements.
    """

    def __init__(self, store: Store, start: int, end: int, training: TrainingSpec, compiled: bool) -> None:
        self.store, self.start, self.end, self.training = store, start, end, training
        size = end - start
        self.mean = torch.zeros(size, dtype=torch.float32)
        self.square = torch.zeros(size, dtype=torch.float32)
        self.remainder = None if store.weights.dtype == torch.float32 else torch.zeros(size, dtype=torch.int16)
        self.steps = 0
        self._update = torch.compile(_update, dynamic=True) if compiled else _update

    def squared_norm(self) -> Tensor:
        """Sum of squared gradients of this range, in float64 so that it does not depend on chunks."""
        total = torch.zeros((), dtype=torch.float64)
        for low in range(self.start, self.end, _CHUNK):
            total += self.store.gradients[low : min(low + _CHUNK, self.end)].float().square().sum(dtype=torch.float64)
        return total

    def step(self, learning_rate: float, clip: Tensor) -> None:
        """Update the range; gradients are multiplied by `clip` first."""
        self.steps += 1
        training = self.training
        # Rates are tensors, so that a compiled update is not recompiled when they change.
        rate = learning_rate / (1 - training.adam_beta1**self.steps)
        square_correction = 1 / (1 - training.adam_beta2**self.steps)
        decay = 1 - learning_rate * training.weight_decay
        rates = torch.tensor([rate, square_correction, decay, 1.0], dtype=torch.float32)
        for low, high, decayed in self._ranges():
            mine = slice(low - self.start, high - self.start)
            self._update(
                self.store.weights[low:high],
                None if self.remainder is None else self.remainder[mine],
                self.store.gradients[low:high],
                self.mean[mine],
                self.square[mine],
                clip,
                rates[0],
                rates[1],
                rates[2 if decayed else 3],
                training.adam_beta1,
                training.adam_beta2,
                training.adam_epsilon,
            )

    def _ranges(self) -> list[tuple[int, int, bool]]:
        """Chunks of the range that do not mix parameters with and without decay."""
        edge = min(max(self.store.decayed_end, self.start), self.end)
        spans = ((self.start, edge, True), (edge, self.end, False))
        return [
            (low, min(low + _CHUNK, end), decayed) for start, end, decayed in spans for low in range(start, end, _CHUNK)
        ]


def _update(
    weights: Tensor,
    remainder: Tensor | None,
    gradients: Tensor,
    mean: Tensor,
    square: Tensor,
    clip: Tensor,
    rate: Tensor,
    square_correction: Tensor,
    decay: Tensor,
    beta1: float,
    beta2: float,
    epsilon: float,
) -> None:
    gradient = gradients.float() * clip
    mean.mul_(beta1).add_(gradient, alpha=1 - beta1)
    square.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
    change = mean / ((square * square_correction).sqrt_() + epsilon) * rate
    if remainder is None:
        weights.mul_(decay).sub_(change)
        return
    upper, lower = split(join(weights, remainder) * decay - change)
    weights.copy_(upper)
    remainder.copy_(lower)
