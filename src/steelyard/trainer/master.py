"""An exact fp32 weight kept as the bf16 weight the model uses and 16 bits beside it."""

import torch
from torch import Tensor


def split(master: Tensor) -> tuple[Tensor, Tensor]:
    """fp32 to the nearest bf16 (ties away from zero) and the signed remainder of the bit patterns."""
    bits = master.view(torch.int32)
    upper = (bits + 0x8000) >> 16
    lower = (bits - (upper << 16)).to(torch.int16)
    # A NaN's pattern may carry over into the sign: it is kept as the plain NaN instead.
    upper = torch.where(master.isnan(), 0x7FC0, upper).to(torch.int16)
    return upper.view(torch.bfloat16), lower


def join(upper: Tensor, lower: Tensor) -> Tensor:
    """The fp32 value `split` was given."""
    bits = (upper.view(torch.int16).to(torch.int32) << 16) + lower.to(torch.int32)
    return bits.view(torch.float32)
