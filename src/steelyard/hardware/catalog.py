"""The GPUs we hold figures against: dense peaks by precision and usable memory.

Peaks are dense (no structured sparsity), in TFLOP/s, from the vendors' datasheets and checked against
units x clock x operations per clock. Memory is what the runtimes report as the card's total, in GiB.
"""

import re
from dataclasses import dataclass

CPU = "cpu"
"""What a platform names when it trains without a GPU; it has no peak."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """One kind of GPU. None is a figure we do not have, never zero."""

    name: str
    vendor: str
    bf16_tflops: float
    """Dense; fp16 runs at the same rate on all of these."""
    fp8_tflops: float | None
    usable_gib: float | None
    aliases: tuple[str, ...]

    def peak_tflops(self, precision: str) -> float | None:
        """The dense peak of the matrix units in `precision` (bf16, fp16, fp8), or None where we have none."""
        return {"bf16": self.bf16_tflops, "fp16": self.bf16_tflops, "fp8": self.fp8_tflops}.get(precision)


_CATALOG = (
    Gpu("a100", "nvidia", 312.0, None, 79.3, ("a100 80gb", "nvidia a100 sxm4 80gb")),
    Gpu("h100", "nvidia", 989.4, 1978.9, 79.1, ("h100 sxm", "h100 80gb", "nvidia h100 80gb hbm3")),
    Gpu("h200", "nvidia", 989.4, 1978.9, 139.8, ("h200 sxm", "nvidia h200")),
    # Two sizes of memory go by this name, so its memory is not known from it.
    Gpu("gh200", "nvidia", 989.0, 1979.0, None, ("nvidia gh200 480gb",)),
    Gpu("b200", "nvidia", 2250.0, 4500.0, 178.35, ("nvidia b200",)),
    Gpu("mi300x", "amd", 1307.4, 2614.9, 191.98, ("amd instinct mi300x", "amd instinct mi300x oam")),
    Gpu("mi325x", "amd", 1307.4, 2614.9, 255.98, ("mi325", "amd instinct mi325x", "amd instinct mi325x oam")),
    Gpu("mi350x", "amd", 2306.9, 4613.7, 287.98, ("mi350", "amd instinct mi350x", "amd instinct mi350x oam")),
    Gpu("mi355x", "amd", 2516.6, 5033.2, 287.98, ("mi355", "amd instinct mi355x", "amd instinct mi355x oam")),
)


def _normal(name: str) -> str:
    return re.sub(r"[\s_-]+", " ", name.strip().lower())


_BY_NAME = {_normal(spelling): gpu for gpu in _CATALOG for spelling in (gpu.name, *gpu.aliases)}
assert len(_BY_NAME) == sum(1 + len(gpu.aliases) for gpu in _CATALOG), "a name stands for two GPUs"


def lookup(name: str) -> Gpu | None:
    """The GPU of that name or alias. Only whole names match: an H100 PCIe is not an H100 SXM."""
    return _BY_NAME.get(_normal(name))


def known_names() -> tuple[str, ...]:
    """Every GPU of the catalog, by its own name."""
    return tuple(gpu.name for gpu in _CATALOG)
