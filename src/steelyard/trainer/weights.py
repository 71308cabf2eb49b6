"""Initial weights: the same bits on every device, rank count and layout.

An element is a function of the seed, its parameter's name and its index in that parameter. Integers do the work:
SplitMix64 gives 64 bits, their four 16-bit parts are summed, and one multiplication, which IEEE 754 rounds alike
everywhere, scales the sum. Four uniform numbers sum to a bell (Irwin-Hall) that ends at 3.46 standard deviations;
no logarithm or cosine is taken, whose last bit would depend on the machine.
"""

import math

import torch
from torch import Tensor

from steelyard.trainer.counter import GOLDEN, MIX_1, MIX_2, key_of

_PARTS = 4
_LEVELS = 1 << 16
_SUM_STD = math.sqrt(_PARTS * (_LEVELS**2 - 1) / 12)
_CHUNK = {"cpu": 1 << 15, "cuda": 1 << 26}
"""Elements made at once: what stays in a core's cache, or keeps a GPU busy within a gigabyte or two."""


def fill_normal(out: Tensor, name: str, seed: int, std: float, start: int = 0) -> None:
    """Fill the flat fp32 `out` with elements `start` onward of the named parameter."""
    key = key_of("weights", seed, name)
    scale = torch.tensor(std / _SUM_STD, dtype=torch.float32, device=out.device)
    chunk = _CHUNK[out.device.type]
    for at in range(0, out.numel(), chunk):
        part = out[at : at + chunk]
        bits = _stream(key, start + at, part.numel(), out.device)
        total = bits & 0xFFFF
        for shift in (16, 32, 48):
            total += (bits >> shift) & 0xFFFF
        total -= _PARTS * (_LEVELS - 1) // 2
        part.copy_(total.to(torch.float32) * scale)


def _stream(key: int, start: int, count: int, device: torch.device) -> Tensor:
    """`counter.stream` in torch's signed integers, whose products wrap alike; shifts are masked to be logical."""
    z = torch.arange(start + 1, start + count + 1, dtype=torch.int64, device=device)
    z.mul_(_signed(GOLDEN)).add_(_signed(key))
    z.bitwise_xor_((z >> 30) & ((1 << 34) - 1)).mul_(_signed(MIX_1))
    z.bitwise_xor_((z >> 27) & ((1 << 37) - 1)).mul_(_signed(MIX_2))
    return z.bitwise_xor_((z >> 31) & ((1 << 33) - 1))


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value
