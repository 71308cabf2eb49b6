"""What the vendors' tools say of their GPUs: one module a tool, all in the same words."""

from collections.abc import Mapping
from dataclasses import dataclass

from steelyard.execute.preflight.probe import count

NAMELESS = "a program without a name"

GpuCounts = dict[tuple[str, str], int]
"""Counts of GPUs, by GPU and name: of memory errors, or of what held the clocks back."""
Sample = dict[str, float | str]
"""One device at one moment; a figure it does not give is absent."""


@dataclass(frozen=True, slots=True)
class SeenGpu:
    """One GPU; None is what the tool did not say."""

    index: str
    name: str | None
    memory_used_gib: float | None
    utilisation_percent: float | None


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A program on a GPU."""

    pid: int
    command: str


@dataclass(frozen=True, slots=True)
class SeenGpus:
    """The GPUs of one vendor on one host."""

    tool: str
    gpus: tuple[SeenGpu, ...]
    processes: tuple[GpuProcess, ...] | None
    driver: str | None
    stack: str | None
    """The version of CUDA or ROCm."""


def sampled(index: str, **figures: float | None) -> Sample:
    """What a GPU says of itself."""
    return {"device": f"gpu{index}", **{name: value for name, value in figures.items() if value is not None}}


def counted(gpu: str, named: Mapping[str, object]) -> GpuCounts:
    """Those of a GPU's figures that are counts."""
    return {(gpu, name): value for name, text in named.items() if (value := count(text)) is not None}
