"""One experiment on one platform, and the machines it is to run on."""

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
    """Where the ranks of a run live."""

    device: Literal["cpu", "gpu"]
    gpu: Gpu | None
    """None on a CPU, and for a GPU the catalog does not know."""
    gpu_name: str
    """What the platform or the driver calls it."""
    nodes: int
    gpus_per_node: int
    cpu_count: int | None
    """Cores of each node, where it is this machine."""

    @property
    def world_size(self) -> int:
        return self.nodes * self.gpus_per_node

    @property
    def label(self) -> str:
        """A word for names: the catalog's own where it knows the GPU."""
        return self.gpu.name if self.gpu else re.sub(r"[^a-z0-9]+", "-", self.gpu_name.lower()).strip("-")

    def peak_tflops(self, precision: Precision) -> float | None:
        """The dense peak of the precision that does the matrix products; None where it is not known."""
        return self.gpu.peak_tflops("fp8" if precision.fp8 else precision.dtype) if self.gpu else None


def place(platform: Platform, machine: Machine) -> Placement:
    """Fill what the platform leaves open from this machine; never the other way round."""
    if platform.gpu is None and not machine.gpu_names and machine.unasked_amd_gpus:
        raise InputError(
            "this machine has AMD GPUs, whose kind and number are not discovered yet",
            key="gpu",
            expected="the GPU and its count, named",
            next="--gpu mi300x --gpus 8, or --gpu cpu",
        )
    if platform.gpu == CPU or (platform.gpu is None and not machine.gpu_names):
        ranks = platform.gpus_per_node or 1
        return Placement("cpu", None, CPU, platform.nodes, ranks, machine.cpu_count)
    if platform.gpu is not None:
        if platform.gpus_per_node is None:
            raise InputError(
                f"the platform's gpu is {platform.gpu} and its gpus_per_node is missing",
                key="gpus_per_node",
                expected="the number of GPUs of one node",
                next="--gpus 8",
            )
        return Placement("gpu", lookup(platform.gpu), platform.gpu, platform.nodes, platform.gpus_per_node, None)
    kinds = sorted(set(machine.gpu_names))
    if len(kinds) > 1:
        raise InputError(
            f"this machine has GPUs of several kinds ({', '.join(kinds)})",
            key="gpu",
            expected="one kind",
            next="export CUDA_VISIBLE_DEVICES=0",
        )
    count = platform.gpus_per_node or len(machine.gpu_names)
    return Placement("gpu", lookup(kinds[0]), kinds[0], platform.nodes, count, machine.cpu_count)


@dataclass(frozen=True, slots=True)
class Case:
    """One experiment on one platform."""

    resolved: Resolved
    placement: Placement
    hosts: tuple[str, ...] = ()
    """The machines it is to run on, in rank order; none where no cluster was named."""
    head_names: tuple[str, ...] = ()
    """What else the first of them is called."""
    env: tuple[tuple[str, str], ...] = ()
    """Variables the cluster file gives every command."""
    login: str | None = None
    """Who the hosts know us as; None for this user."""

    @property
    def reading(self) -> Reading:
        return self.resolved.reading
