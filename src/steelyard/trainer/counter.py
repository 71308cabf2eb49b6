"""Counter-based random integers: each value depends only on a key and an index, on every machine."""

import hashlib

import numpy as np
import numpy.typing as npt

GOLDEN = 0x9E3779B97F4A7C15
MIX_1 = 0xBF58476D1CE4E5B9
MIX_2 = 0x94D049BB133111EB
"""SplitMix64's increment and mixing constants (Steele, Lea and Flood, OOPSLA 2014)."""

UInts = npt.NDArray[np.uint64]


def key_of(*parts: str | int) -> int:
    """A 64-bit key of a stream, from the names and numbers that identify it."""
    text = "/".join(str(part) for part in parts)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def stream(key: int, start: int, count: int) -> UInts:
    """Values `start` to `start + count` of a stream: SplitMix64 at any index."""
    z = np.arange(start + 1, start + count + 1, dtype=np.uint64)
    z *= np.uint64(GOLDEN)
    z += np.uint64(key)
    mix(z, np.empty_like(z))
    return z


def mix(z: UInts, scratch: UInts) -> None:
    """SplitMix64's finalizer, in place."""
    for shift, factor in ((30, MIX_1), (27, MIX_2), (31, 1)):
        np.right_shift(z, np.uint64(shift), out=scratch)
        np.bitwise_xor(z, scratch, out=z)
        if factor != 1:
            np.multiply(z, np.uint64(factor), out=z)


def below(values: UInts, bound: int) -> npt.NDArray[np.int64]:
    """Values mapped to 0 … bound - 1 by their upper 32 bits; the bias is below bound / 2^32."""
    return ((values >> np.uint64(32)) * np.uint64(bound) >> np.uint64(32)).astype(np.int64)
