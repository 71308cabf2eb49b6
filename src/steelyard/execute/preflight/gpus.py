"""Checks number, type and use of the GPUs, and that all hosts have the same drivers."""

from collections import Counter

from steelyard.execute.preflight.facts import GPU_TOOLS, Facts, HostFacts
from steelyard.execute.preflight.finding import Check, Findings, HostFinding
from steelyard.execute.preflight.needs import Needs
from steelyard.execute.preflight.smi import SeenGpus
from steelyard.hardware.catalog import lookup
from steelyard.reasons import Code

COUNT = Check("gpu_count", required=True)
KIND = Check("gpu_kind", required=True)
IDLE = Check("gpu_idle", required=True)
DRIVER = Check("driver_version")
STACK = Check("stack_version")
CHECKS = (COUNT, KIND, IDLE, DRIVER, STACK)

GPU_COUNT_RIGHT = Code("gpu_count_right", "{observed} GPUs")
"""The host has as many GPUs as are needed, or as most hosts have."""
GPU_COUNT_WRONG = Code("gpu_count_wrong", "{observed} GPUs, but {others} {expected}")
"""The host has fewer GPUs than are needed, or another number than most hosts."""
GPUS_SILENT = Code("gpus_silent", "cannot list the GPUs ({reasons})")
"""No tool on the host reports its GPUs."""
GPUS_MISSING = Code("gpus_missing", "no GPU found ({reasons})")
"""The host has no GPU."""
GPUS_OF_OTHER_VENDOR = Code("gpus_of_other_vendor", "{others} instead of {gpu_name}")
"""The host has GPUs of another vendor than the config names."""
GPU_KIND_RIGHT = Code("gpu_kind_right", "GPU type is {observed}")
"""The GPUs of the host are those that the config names."""
GPU_KIND_WRONG = Code("gpu_kind_wrong", "GPU type is {observed}, but the config names {expected}")
"""The GPUs of the host are not those that the config names."""
GPU_KINDS_MIXED = Code("gpu_kinds_mixed", "several GPU types: {observed}")
"""The host has GPUs of several types."""
GPU_KIND_UNLISTED = Code("gpu_kind_unlisted", "GPU type {observed!r} is not in the catalog")
"""The tool gives the GPUs a name that the catalog does not have."""
GPU_KIND_UNNAMED = Code("gpu_kind_unnamed", "GPU type unknown: the tool reports no name")
"""The tool does not name the GPUs."""
GPUS_IDLE = Code("gpus_idle", "GPUs are idle")
"""No program uses the GPUs."""
GPUS_BUSY = Code("gpus_busy", "GPUs in use: {observed}")
"""A program uses the GPUs or their memory."""
GPU_USE_UNKNOWN = Code("gpu_use_unknown", "{tool} does not report {missing}")
"""The tool does not report the programs on the GPUs, or their memory in use."""

IDLE_GIB = 1.0
IDLE_PERCENT = 5.0
_SHOWN = 8
_NVIDIA_DRIVER, _AMD_DRIVER = "/sys/module/nvidia/version", "/sys/module/amdgpu/version"
_ROCM = "/opt/rocm/.info/version"


def check(needs: Needs, facts: HostFacts) -> Findings:
    if not needs.wants_gpus:
        return
    seen = {host: gpus for host in facts if (gpus := seen_gpus(needs, facts[host])) is not None}
    yield from _counts(needs, facts, {host: len(gpus.gpus) for host, gpus in seen.items()})
    yield from _kinds(needs, seen)
    for host, gpus in seen.items():
        if gpus.gpus:
            yield _idle(host, gpus)
    yield from _versions(facts, seen)


def seen_gpus(needs: Needs, seen: Facts) -> SeenGpus | None:
    """The GPUs of the requested vendor; without one, of the vendor with the most GPUs."""
    if needs.gpu is not None:
        return seen.gpus.get(needs.gpu.vendor)
    return max(seen.gpus.values(), key=lambda gpus: len(gpus.gpus), default=None)


def _counts(needs: Needs, facts: HostFacts, counts: dict[str, int]) -> Findings:
    usual = Counter(counts.values()).most_common(1)[0][0] if counts else None
    least = needs.gpus_per_node or usual
    named = needs.gpus_per_node is not None
    for host, seen in facts.items():
        count = counts.get(host)
        if count is None:
            yield from _unseen(needs, host, seen, least)
        elif count < (least or 0) or (count != least and not named) or not count:
            fix = "check for a GPU that fell off the bus (`lspci`, `dmesg`), or use fewer (--gpus)"
            others = "the config needs" if named else "most hosts have"
            yield COUNT.failed(GPU_COUNT_WRONG, host, fix, count, least, others=others)
        else:
            yield COUNT.passed(GPU_COUNT_RIGHT, host, count, least)


def _unseen(needs: Needs, host: str, seen: Facts, least: int | None) -> Findings:
    """No tool answered: without device nodes the host has no GPU; with them, the number is unknown."""
    vendors = [needs.gpu.vendor] if needs.gpu else list(GPU_TOOLS)
    reasons = "; ".join(seen.gpu_tools[vendor] for vendor in vendors if vendor in seen.gpu_tools)
    if seen.gpu_vendors is None or any(vendor in seen.gpu_vendors for vendor in vendors):
        tools = " or ".join(tool for vendor in vendors for tool, _, _ in GPU_TOOLS[vendor])
        fix, reasons = f"install {tools}, or load the driver", reasons or "no tool answers"
        yield COUNT.unknown(GPUS_SILENT, host, fix, None, least, reasons=reasons)
    elif needs.gpu_name is not None or least:
        others = ", ".join(f"{len(gpus.gpus)} x {gpus.gpus[0].name}" for gpus in seen.gpus.values() if gpus.gpus)
        fix = "load the driver (`modprobe amdgpu` or `modprobe nvidia`), or name the GPU that the host has (--gpu)"
        code = GPUS_OF_OTHER_VENDOR if others else GPUS_MISSING
        yield COUNT.failed(code, host, fix, 0, least, others=others, gpu_name=needs.gpu_name, reasons=reasons)


def _kinds(needs: Needs, seen: dict[str, SeenGpus]) -> Findings:
    names: dict[str, str | None] = {}
    for host, gpus in seen.items():
        kinds = Counter(_kind(gpu.name) if gpu.name else None for gpu in gpus.gpus)
        if len(kinds) > 1:
            listed = ", ".join(f"{count} x {name or 'unknown'}" for name, count in kinds.items())
            fix = "remove the different GPU, or select GPUs with CUDA_VISIBLE_DEVICES or HIP_VISIBLE_DEVICES"
            yield KIND.failed(GPU_KINDS_MIXED, host, fix, listed, needs.gpu_name or "one type")
        elif kinds:
            names[host] = next(iter(kinds))
    if needs.gpu_name is None:
        yield from KIND.compared(names, "GPU type", "the tool reports no name", "name it with --gpu")
        return
    for host, name in names.items():
        yield _is_named_kind(needs, host, name)


def _is_named_kind(needs: Needs, host: str, name: str | None) -> HostFinding:
    wanted = needs.gpu.name if needs.gpu else needs.gpu_name
    if name is not None and name in (wanted, needs.gpu_name):
        return KIND.passed(GPU_KIND_RIGHT, host, name, wanted)
    if name is None or (needs.gpu is not None and lookup(name) is None):
        fix = f"check that this GPU is a {wanted}"
        return KIND.unknown(GPU_KIND_UNLISTED if name else GPU_KIND_UNNAMED, host, fix, name, wanted)
    fix = f"use hosts with {wanted}, or plan for this GPU (--gpu {name})"
    return KIND.failed(GPU_KIND_WRONG, host, fix, name, wanted)


def _kind(name: str) -> str:
    gpu = lookup(name)
    return gpu.name if gpu else name


def _idle(host: str, seen: SeenGpus) -> HostFinding:
    busy = [f"pid {process.pid} ({process.command})" for process in seen.processes or ()]
    for gpu in seen.gpus:
        if gpu.memory_used_gib is not None and gpu.memory_used_gib > IDLE_GIB:
            busy.append(f"GPU {gpu.index} uses {gpu.memory_used_gib:.1f} GiB")
        elif gpu.utilization_percent is not None and gpu.utilization_percent > IDLE_PERCENT:
            busy.append(f"GPU {gpu.index} is {gpu.utilization_percent:g}% busy")
    if busy:
        shown = ", ".join(busy[:_SHOWN]) + (f" and {len(busy) - _SHOWN} more" if len(busy) > _SHOWN else "")
        fix = "wait for it to end, or ask its owner to stop it"
        return IDLE.failed(GPUS_BUSY, host, fix, shown, "idle")
    if any(gpu.memory_used_gib is None for gpu in seen.gpus) or seen.processes is None:
        missing, tool = "GPU programs" if seen.processes is None else "GPU memory in use", seen.tool
        return IDLE.unknown(GPU_USE_UNKNOWN, host, f"run `{tool}` on it", None, "idle", tool=tool, missing=missing)
    return IDLE.passed(GPUS_IDLE, host, "idle", "idle")


def _versions(facts: HostFacts, seen: dict[str, SeenGpus]) -> Findings:
    drivers: dict[str, str | None] = {}
    stacks: dict[str, str | None] = {}
    for host, gpus in seen.items():
        modules, is_amd = facts[host].module_versions, gpus.tool != "nvidia-smi"
        drivers[host] = gpus.driver or modules.get(_AMD_DRIVER if is_amd else _NVIDIA_DRIVER)
        stacks[host] = gpus.stack or (modules.get(_ROCM, "").partition("-")[0] or None if is_amd else None)
    missing = "neither the tool nor the kernel reports it"
    yield from DRIVER.compared(drivers, "driver", missing, "install the same driver on all hosts")
    yield from STACK.compared(stacks, "CUDA or ROCm", missing, "install the same CUDA or ROCm on all hosts")
