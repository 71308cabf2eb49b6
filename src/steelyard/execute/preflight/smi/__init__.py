"""GPUs as the vendors' tools report them: one module per tool, one form for all."""

from collections.abc import Mapping
from dataclasses import dataclass

from steelyard.execute.preflight.probe import count

NAMELESS = "a program without a name"

GpuCounts = dict[tuple[str, str], int]
"""Counts by GPU and name: memory errors or throttling."""
Sample = dict[str, float | str]
"""One device at one time; a figure that the device does not give is absent."""


@dataclass(frozen=True, slots=True)
class SeenGpu:
    """One GPU; None: the tool does not report the value."""

    index: str
    name: str | None
    memory_used_gib: float | None
    utilization_percent: float | None


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


def sampled(index: str, **figures: float | str | None) -> Sample:
    """A sample of a GPU, without missing figures."""
    return {"device": f"gpu{index}", **{name: value for name, value in figures.items() if value is not None}}


def counted(gpu: str, named: Mapping[str, object]) -> GpuCounts:
    """The figures of a GPU that are counts."""
    return {(gpu, name): value for name, text in named.items() if (value := count(text)) is not None}
