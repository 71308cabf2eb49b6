"""One experiment on one platform, with the machines that run it."""

import re
from dataclasses import dataclass
from typing import Literal

from steelyard.errors import InputError
from steelyard.experiment.experiment import Precision
from steelyard.experiment.platform import Platform
from steelyard.experiment.reading import Reading
from steelyard.experiment.resolve import Resolved
from steelyard.hardware.catalog import CPU, Gpu, lookup
from steelyard.hardware.machine import Machine


@dataclass(frozen=True, slots=True)
class Placement:
    """The hardware of a run."""

    device: Literal["cpu", "gpu"]
    gpu: Gpu | None
    """None on a CPU, and for a GPU that is not in the catalog."""
    gpu_name: str
    """The name from the platform or the driver."""
    nodes: int
    gpus_per_node: int
    cpu_count: int | None
    """Cores of each node; None unless it is this machine."""

    @property
    def world_size(self) -> int:
        return self.nodes * self.gpus_per_node

    @property
    def label(self) -> str:
        """A short name: the one of the catalog if it has the GPU."""
        return self.gpu.name if self.gpu else re.sub(r"[^a-z0-9]+", "-", self.gpu_name.lower()).strip("-")

    def peak_tflops(self, precision: Precision) -> float | None:
        """The dense peak in the precision of the matrix products; None if it is unknown."""
        return self.gpu.peak_tflops("fp8" if precision.fp8 else precision.dtype) if self.gpu else None


def place(platform: Platform, machine: Machine) -> Placement:
    """The platform's hardware; what it leaves open is taken from this machine."""
    if platform.gpu is None and not machine.gpu_names and machine.unasked_amd_gpus:
        raise InputError(
            "this machine has AMD GPUs, whose type and number are not detected yet",
            key="gpu",
            expected="the GPU and the number per node",
            next="--gpu mi300x --gpus 8, or --gpu cpu",
        )
    if platform.gpu == CPU or (platform.gpu is None and not machine.gpu_names):
        ranks = platform.gpus_per_node or 1
        return Placement("cpu", None, CPU, platform.nodes, ranks, machine.cpu_count)
    if platform.gpu is not None:
        if platform.gpus_per_node is None:
            raise InputError(
                f"the platform has gpu {platform.gpu}, but gpus_per_node is missing",
                key="gpus_per_node",
                expected="the number of GPUs per node",
                next="--gpus 8",
            )
        gpu = lookup(platform.gpu)
        check_plannable(gpu)
        return Placement("gpu", gpu, platform.gpu, platform.nodes, platform.gpus_per_node, None)
    kinds = sorted(set(machine.gpu_names))
    if len(kinds) > 1:
        raise InputError(
            f"this machine has several types of GPU ({', '.join(kinds)})",
            key="gpu",
            expected="one type",
            next="export CUDA_VISIBLE_DEVICES=0",
        )
    count = platform.gpus_per_node or len(machine.gpu_names)
    return Placement("gpu", lookup(kinds[0]), kinds[0], platform.nodes, count, machine.cpu_count)


def check_plannable(gpu: Gpu | None) -> None:
    """Refuse a GPU that Steelyard can judge but not run on."""
    if gpu is not None and not gpu.plannable:
        raise InputError(
            f"{gpu.name} cannot be planned for: containers and monitoring are for NVIDIA and AMD GPUs",
            key="gpu",
            value=gpu.name,
            expected="an NVIDIA or AMD GPU, or a log of the run",
            next=f"steelyard ingest LOG --gpu {gpu.name}",
        )


@dataclass(frozen=True, slots=True)
class Case:
    """One experiment on one platform."""

    resolved: Resolved
    placement: Placement
    hosts: tuple[str, ...] = ()
    """The hosts in rank order; empty without a cluster file."""
    head_names: tuple[str, ...] = ()
    """Other names of the first host."""
    env: tuple[tuple[str, str], ...] = ()
    """Variables of every command, from the cluster file."""
    login: str | None = None
    """The login on the hosts; None for the current user."""

    @property
    def reading(self) -> Reading:
        return self.resolved.reading
