"""What this machine has: its GPUs as the driver names them."""

import os
from dataclasses import dataclass
from pathlib import Path

from steelyard.errors import InfrastructureError

AMD_DEVICE = Path("/dev/kfd")


@dataclass(frozen=True, slots=True)
class Machine:
    """The GPUs visible here, as reported; none on a laptop."""

    gpu_names: tuple[str, ...]
    cpu_count: int
    unasked_amd_gpus: bool = False
    """AMD's driver is here; we cannot ask it yet how many GPUs of which kind there are."""


def discover() -> Machine:
    """Ask the driver."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return Machine(_visible(_nvidia_names()), cores, unasked_amd_gpus=AMD_DEVICE.exists())


def _nvidia_names() -> tuple[str, ...]:
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return ()
    try:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
        return tuple(str(pynvml.nvmlDeviceGetName(handle)) for handle in handles)
    finally:
        pynvml.nvmlShutdown()


def _visible(names: tuple[str, ...]) -> tuple[str, ...]:
    """What CUDA_VISIBLE_DEVICES leaves; it is how a shared machine is divided."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is None or not names:
        return names
    indices = [part.strip() for part in chosen.split(",") if part.strip()]
    if not all(part.isdigit() and int(part) < len(names) for part in indices):
        raise InfrastructureError(
            f"CUDA_VISIBLE_DEVICES is {chosen!r}",
            key="CUDA_VISIBLE_DEVICES",
            value=chosen,
            expected=f"indices below {len(names)}, separated by commas",
            next="export CUDA_VISIBLE_DEVICES=0",
        )
    return tuple(names[int(part)] for part in indices)
