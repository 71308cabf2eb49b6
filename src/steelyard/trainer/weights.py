"""Initial weights: the same bits on every device, rank count and layout.

An element depends on the seed, its parameter's name and its index. SplitMix64 gives 64 bits; their four 16-bit parts
are summed, and one multiplication scales the sum, which IEEE 754 rounds equally everywhere. The sum of four uniform
numbers is bell-shaped (Irwin-Hall) and ends at 3.46 standard deviations. Logarithms and cosines are avoided, since
their last bit depends on the machine.
"""

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from steelyard.trainer.counter import GOLDEN, MIX_1, MIX_2, key_of, mix

_PARTS = 4
_LEVELS = 1 << 16
_MEAN = _PARTS * (_LEVELS - 1) // 2
_STD = math.sqrt(_PARTS * (_LEVELS**2 - 1) / 12)
_CPU_CHUNK = 1 << 16
"""Elements per chunk on a CPU; they fit into a core's cache."""
_CPU_WORKERS = 4
"""More threads wait for the interpreter lock: 16 are three times slower than 4."""
_GPU_CHUNK = 1 << 26
"""Elements per chunk on a GPU: enough work, within 2 GiB."""


def fill_normal(out: Tensor, name: str, seed: int, std: float, start: int = 0) -> None:
    """Fill the flat fp32 `out` with elements `start` onward of the named parameter."""
    key, scale = key_of("weights", seed, name), np.float32(std / _STD)
    if out.device.type == "cpu":
        _fill_on_cpu(out.numpy(), key, start, scale)
    else:
        _fill_on_gpu(out, key, start, float(scale))


def _fill_on_cpu(out: npt.NDArray[np.float32], key: int, start: int, scale: np.float32) -> None:
    """Fill in numpy, which has unsigned integers and releases the interpreter lock."""
    workers = min(torch.get_num_threads(), _CPU_WORKERS)
    share = -(-len(out) // (workers * _CPU_CHUNK)) * _CPU_CHUNK
    with ThreadPoolExecutor(workers) as pool:
        starts = range(0, len(out), share)
        list(pool.map(lambda low: _fill_share(out[low : low + share], start + low, key, scale), starts))


def _fill_share(out: npt.NDArray[np.float32], start: int, key: int, scale: np.float32) -> None:
    steps = np.arange(1, min(_CPU_CHUNK, len(out)) + 1, dtype=np.uint64) * np.uint64(GOLDEN)
    bits, scratch = np.empty_like(steps), np.empty_like(steps)
    pairs = np.uint64(0x0000FFFF0000FFFF)
    for low in range(0, len(out), _CPU_CHUNK):
        part = out[low : low + _CPU_CHUNK]
        z, s = bits[: len(part)], scratch[: len(part)]
        np.add(steps[: len(part)], np.uint64((key + (start + low) * GOLDEN) % 2**64), out=z)
        mix(z, s)
        np.right_shift(z, np.uint64(16), out=s)
        np.bitwise_and(s, pairs, out=s)
        np.bitwise_and(z, pairs, out=z)
        np.add(z, s, out=z)  # two sums of two parts
        np.right_shift(z, np.uint64(32), out=s)
        np.add(z, s, out=z)
        np.bitwise_and(z, np.uint64(0xFFFFFFFF), out=z)
        part[:] = z  # below 2^18, so exact
        np.subtract(part, np.float32(_MEAN), out=part)
        np.multiply(part, scale, out=part)


def _fill_on_gpu(out: Tensor, key: int, start: int, scale: float) -> None:
    factor = torch.tensor(scale, dtype=torch.float32, device=out.device)
    for low in range(0, out.numel(), _GPU_CHUNK):
        part = out[low : low + _GPU_CHUNK]
        bits = _stream(key, start + low, part.numel(), out.device)
        total = bits & 0xFFFF
        for shift in (16, 32, 48):
            total += (bits >> shift) & 0xFFFF
        part.copy_((total - _MEAN).to(torch.float32) * factor)


def _stream(key: int, start: int, count: int, device: torch.device) -> Tensor:
    """`counter.stream` with torch's signed integers, whose products wrap equally; masks make shifts logical."""
    z = torch.arange(start + 1, start + count + 1, dtype=torch.int64, device=device)
    z.mul_(_signed(GOLDEN)).add_(_signed(key))
    z.bitwise_xor_((z >> 30) & ((1 << 34) - 1)).mul_(_signed(MIX_1))
    z.bitwise_xor_((z >> 27) & ((1 << 37) - 1)).mul_(_signed(MIX_2))
    return z.bitwise_xor_((z >> 31) & ((1 << 33) - 1))


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value
