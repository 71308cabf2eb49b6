"""Cross-entropy that never holds more than a slice of the logits."""

from typing import Any, cast

import torch
from torch import Tensor

_LOGITS_AT_ONCE = 1 << 28
"""Elements of one slice: half a gibibyte in bf16, one in fp32."""


class _SlicedCrossEntropy(torch.autograd.Function):
    """Makes the gradients in the forward pass, a slice of tokens at a time, so that no whole logits are kept."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, labels: Tensor, scale: float, rows: int) -> Tensor:
        total = torch.zeros((), dtype=torch.float32, device=hidden.device)
        hidden_grad = torch.empty_like(hidden)
        weight_grad = torch.zeros_like(weight)
        for at in range(0, len(hidden), rows):
            part = slice(at, at + rows)
            logits = (hidden[part] @ weight.T).float()
            normaliser = torch.logsumexp(logits, dim=-1)
            wanted = logits.gather(1, labels[part, None])
            total += (normaliser - wanted[:, 0]).sum()
            gradient = logits.sub_(normaliser[:, None]).exp_()
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
    """`scale` times the sum of the tokens' losses, in fp32; `rows` tokens at a time."""
    rows = rows or max(1, _LOGITS_AT_ONCE // weight.shape[0])
    apply = cast(Any, _SlicedCrossEntropy).apply
    return cast(Tensor, apply(hidden.flatten(0, 1), weight, labels.flatten(), scale, rows))
