"""Driver and CUDA or ROCm are the same on every host."""

from collections.abc import Iterator, Mapping

from steelyard.execute.preflight.facts import Facts
from steelyard.execute.preflight.finding import Check, HostFinding
from steelyard.execute.preflight.gpus import seen_gpus
from steelyard.execute.preflight.needs import Needs

DRIVER = Check("driver_version")
STACK = Check("stack_version")
CHECKS = (DRIVER, STACK)

_MODULES = {"nvidia-smi": "/sys/module/nvidia/version"}
_AMDGPU = "/sys/module/amdgpu/version"
_ROCM = "/opt/rocm/.info/version"


def check(needs: Needs, facts: Mapping[str, Facts]) -> Iterator[HostFinding]:
    if not needs.wants_gpus:
        return
    drivers: dict[str, str | None] = {}
    stacks: dict[str, str | None] = {}
    for host, seen in facts.items():
        gpus = seen_gpus(needs, seen)
        if gpus is None:
            continue
        modules, is_amd = seen.module_versions, gpus.tool != "nvidia-smi"
        drivers[host] = gpus.driver or modules.get(_MODULES.get(gpus.tool, _AMDGPU))
        stacks[host] = gpus.stack or (modules.get(_ROCM, "").partition("-")[0] or None if is_amd else None)
    unsaid = "neither the tool nor the kernel says it"
    yield from DRIVER.compared(drivers, "the driver", unsaid, "install the same driver on all hosts")
    yield from STACK.compared(stacks, "CUDA or ROCm", unsaid, "install the same CUDA or ROCm on all hosts")
