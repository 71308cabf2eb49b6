"""The GPUs of this machine, as the driver names them."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

AMD_DEVICE = Path("/dev/kfd")


@dataclass(frozen=True, slots=True)
class Machine:
    """The visible GPUs; none on a laptop."""

    gpu_names: tuple[str, ...]
    cpu_count: int
    unasked_amd_gpus: bool = False
    """Whether AMD's driver is loaded. The type and number of its GPUs are not detected yet."""


def discover() -> Machine:
    """Detect the GPUs of this machine."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return Machine(visible(_nvidia_gpus()), cores, unasked_amd_gpus=AMD_DEVICE.exists())


def _nvidia_gpus() -> list[tuple[str, str]]:
    """UUID and name of each NVIDIA GPU."""
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return []
    try:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
        return [(str(pynvml.nvmlDeviceGetUUID(handle)), str(pynvml.nvmlDeviceGetName(handle))) for handle in handles]
    finally:
        pynvml.nvmlShutdown()


def visible(gpus: list[tuple[str, str]]) -> tuple[str, ...]:
    """The GPUs that CUDA_VISIBLE_DEVICES selects, as CUDA reads it: indices or UUIDs, up to an invalid one."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is None:
        return tuple(name for _, name in gpus)
    left: list[str] = []
    for part in (part.strip() for part in chosen.split(",")):
        if part.startswith("MIG-"):
            left.append("MIG slice")  # a part of a GPU, which is not in the catalog
        elif re.fullmatch(r"[0-9]{1,9}", part) and int(part) < len(gpus):
            left.append(gpus[int(part)][1])
        elif part and (names := [name for uuid, name in gpus if uuid.startswith(part)]):
            left.append(names[0])
        else:
            break
    return tuple(left)
