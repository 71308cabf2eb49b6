"""The sliced loss is the plain one."""

import pytest
import torch
import torch.nn.functional as F

from steelyard.trainer.model import scaled_loss

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("rows", [1, 7, 64, None])
def test_loss_and_gradients_are_those_of_plain_cross_entropy(rows: int | None) -> None:
    torch.manual_seed(0)
    hidden = torch.randn(4, 16, 24, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(50, 24, dtype=torch.float64, requires_grad=True)
    labels = torch.randint(0, 50, (4, 16))
    plain = F.cross_entropy((hidden.flatten(0, 1) @ weight.T), labels.flatten(), reduction="sum") / 64
    expected = torch.autograd.grad(plain * 3, (hidden, weight))
    sliced = scaled_loss(hidden, weight, labels, 1 / 64, rows)
    found = torch.autograd.grad(sliced * 3, (hidden, weight))
    assert sliced.item() == pytest.approx(plain.item(), rel=1e-6)
    for one, other in zip(found, expected, strict=True):
        assert torch.allclose(one, other, rtol=1e-5, atol=1e-6)


def test_a_nan_is_not_lost() -> None:
    hidden = torch.full((1, 2, 4), float("nan"))
    assert scaled_loss(hidden, torch.ones(8, 4), torch.zeros(1, 2, dtype=torch.int64), 1.0).isnan()
