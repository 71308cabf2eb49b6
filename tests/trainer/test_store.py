"""The fp32 weight kept in a bf16 weight and 16 bits is exact."""

import pytest
import torch

from steelyard.trainer.store import join, split

pytestmark = pytest.mark.torch


def test_every_kind_of_float_survives() -> None:
    bits = torch.randint(-(2**31), 2**31, (1 << 20,), dtype=torch.int64).to(torch.int32)
    edges = torch.tensor([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF, 0x7F7FFFFF, 0x7F800000, 0x00800000], dtype=torch.int32)
    values = torch.cat([bits, edges, edges | -(2**31)]).view(torch.float32)
    finite = values[~values.isnan()]
    upper, lower = split(finite)
    assert torch.equal(join(upper, lower).view(torch.int32), finite.view(torch.int32))


def test_the_upper_half_is_the_nearest_bf16() -> None:
    values = torch.randn(1 << 16) * torch.logspace(-30, 30, 1 << 16)
    upper, _ = split(values)
    nearest = values.to(torch.bfloat16)  # ties to even, ours away from zero: equally near
    assert torch.equal((upper.double() - values).abs(), (nearest.double() - values).abs())


def test_a_nan_stays_one_whatever_its_bits() -> None:
    bits = torch.tensor([0x7FFFFFFF, 0x7FC00000, 0x7F800001, -1], dtype=torch.int32)
    upper, lower = split(bits.view(torch.float32))
    assert upper.isnan().all()
    assert join(upper, lower).isnan().all()
