"""What the vendors' tools say of their GPUs: one module a tool, all in the same words."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from steelyard.execute.preflight.probe import Sections


@dataclass(frozen=True, slots=True)
class SeenGpu:
    """One GPU; None is what the tool did not say."""

    index: str
    name: str | None
    memory_used_gib: float | None
    utilisation_percent: float | None


NAMELESS = "a program without a name"


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


@dataclass(frozen=True, slots=True)
class GpuCount:
    """One of a GPU's own counts: of memory errors, or of what held its clocks back."""

    gpu: str
    name: str
    value: int


Sample = dict[str, float | str]
"""One device at one moment; a figure it does not give is absent."""


def sampled(index: str, **figures: float | None) -> Sample:
    """What a GPU says of itself."""
    return {"device": f"gpu{index}", **{name: value for name, value in figures.items() if value is not None}}


def readers() -> Mapping[str, tuple[Callable[[Sections], SeenGpus | None], ...]]:
    """The tools of each vendor, the better first."""
    from steelyard.execute.preflight.smi import amd_smi, nvidia_smi, rocm_smi

    return {"nvidia": (nvidia_smi.read,), "amd": (amd_smi.read, rocm_smi.read)}


def known(text: object) -> str | None:
    """A word of a tool; None where it says that it does not know."""
    said = str(text).strip() if isinstance(text, str | int | float) else ""
    return None if said.strip("[]").lower() in ("", "n/a", "none", "not supported", "unknown error") else said


def number(text: object) -> float | None:
    """A figure of a tool, with or without its unit; None where it is none, or not finite."""
    said = known(text)
    try:
        value = float(said.split()[0].rstrip("%")) if said else None
    except ValueError:
        return None
    return value if value is not None and math.isfinite(value) else None


LARGEST = 2**63 - 1
"""Beyond it stands what a driver gives for a count it has not."""


def count(text: object) -> int | None:
    """A count of a tool; None where it is none."""
    said = known(text)
    return int(said) if said and said.isdecimal() and len(said) < 20 and int(said) <= LARGEST else None


def counted(gpu: str, named: Mapping[str, object]) -> list[GpuCount]:
    """Those of a GPU's figures that are counts."""
    return [GpuCount(gpu, name, value) for name, text in named.items() if (value := count(text)) is not None]
