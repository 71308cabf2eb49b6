"""The GPUs are there in number, of one kind, of the kind that is named, and idle."""

from collections import Counter
from collections.abc import Iterator, Mapping

from steelyard.execute.preflight.facts import Facts
from steelyard.execute.preflight.finding import Check, HostFinding
from steelyard.execute.preflight.needs import Needs
from steelyard.execute.preflight.smi import SeenGpus
from steelyard.hardware.catalog import lookup

COUNT = Check("gpu_count", required=True)
KIND = Check("gpu_kind", required=True)
IDLE = Check("gpu_idle", required=True)
CHECKS = (COUNT, KIND, IDLE)

IDLE_GIB = 1.0
IDLE_PERCENT = 5.0
_TOOLS = {"nvidia": "nvidia-smi", "amd": "amd-smi or rocm-smi"}


def check(needs: Needs, facts: Mapping[str, Facts]) -> Iterator[HostFinding]:
    if not needs.wants_gpus:
        return
    yield from _counts(needs, facts)
    yield from _kinds(needs, facts)
    for host in facts:
        seen = seen_gpus(needs, facts[host])
        if seen is not None and seen.gpus:
            yield _idle(host, seen)


def seen_gpus(needs: Needs, seen: Facts) -> SeenGpus | None:
    """Of the vendor that is asked for, else of the one that is there."""
    if needs.gpu is not None:
        return seen.gpus.get(needs.gpu.vendor)
    return max(seen.gpus.values(), key=lambda one: len(one.gpus), default=None)


def _counts(needs: Needs, facts: Mapping[str, Facts]) -> Iterator[HostFinding]:
    counts = {host: len(gpus.gpus) for host in facts if (gpus := seen_gpus(needs, facts[host])) is not None}
    usual = Counter(counts.values()).most_common(1)[0][0] if counts else None
    least = needs.gpus_per_node or usual
    named = needs.gpus_per_node is not None
    for host, seen in facts.items():
        found = counts.get(host)
        if found is None:
            yield from _unseen(needs, host, seen, least)
        elif found < (least or 0) or (found != least and not named) or not found:
            others = "the config needs" if named else "most hosts have"
            message = f"{found} GPUs are seen, and {others} {least}"
            fix = "see whether one fell off the bus (`lspci`, `dmesg`), or give the config fewer (--gpus)"
            yield COUNT.failed(host, message, fix, found, least)
        else:
            yield COUNT.passed(host, f"{found} GPUs are seen", found, least)


def _unseen(needs: Needs, host: str, seen: Facts, least: int | None) -> Iterator[HostFinding]:
    """No tool answered: without device nodes there is no GPU, with them there is no telling."""
    wanted = [needs.gpu.vendor] if needs.gpu else list(_TOOLS)
    reasons = "; ".join(seen.gpu_tools[vendor] for vendor in wanted if vendor in seen.gpu_tools)
    tools = " or ".join(_TOOLS[vendor] for vendor in wanted)
    if seen.gpu_vendors is None or any(vendor in seen.gpu_vendors for vendor in wanted):
        fix = f"install {tools}, or load the driver"
        yield COUNT.unknown(host, f"its GPUs cannot be asked ({reasons or 'no tool answers'})", fix, None, least)
    elif needs.gpu_name is not None or least:
        others = ", ".join(f"{len(one.gpus)} x {one.gpus[0].name}" for one in seen.gpus.values() if one.gpus)
        message = f"it has {others}, and no {needs.gpu_name}" if others else f"it has no GPU: no device ({reasons})"
        fix = "load the driver (`modprobe amdgpu` or `modprobe nvidia`), or name what it has (--gpu)"
        yield COUNT.failed(host, message, fix, 0, least)


def _kinds(needs: Needs, facts: Mapping[str, Facts]) -> Iterator[HostFinding]:
    names: dict[str, str | None] = {}
    for host in facts:
        seen = seen_gpus(needs, facts[host])
        if seen is None or not seen.gpus:
            continue
        kinds = Counter(_kind(gpu.name) if gpu.name else None for gpu in seen.gpus)
        if len(kinds) > 1:
            said = ", ".join(f"{count} x {name or 'unknown'}" for name, count in kinds.items())
            fix = "take the odd one out, or choose with CUDA_VISIBLE_DEVICES or HIP_VISIBLE_DEVICES"
            yield KIND.failed(host, f"its GPUs are of several kinds: {said}", fix, said, needs.gpu_name or "one kind")
        else:
            names[host] = next(iter(kinds))
    if needs.gpu_name is None:
        yield from KIND.compared(names, "the GPU", "the tool does not name it", "see what the host has; or --gpu")
        return
    for host, name in names.items():
        yield _of_the_named_kind(needs, host, name)


def _of_the_named_kind(needs: Needs, host: str, name: str | None) -> HostFinding:
    wanted = needs.gpu.name if needs.gpu else needs.gpu_name
    if name is not None and (name == wanted or name == needs.gpu_name):
        return KIND.passed(host, f"its GPUs are {name}", name, wanted)
    if name is None or (needs.gpu is not None and lookup(name) is None):
        message = f"its GPUs are called {name!r}, which is not in the catalog" if name else "the tool does not name it"
        return KIND.unknown(host, message, f"see whether that is what the config calls {wanted}", name, wanted)
    fix = f"run it where there are {wanted}, or name what is here (--gpu {name})"
    return KIND.failed(host, f"its GPUs are {name}, and the config names {wanted}", fix, name, wanted)


def _kind(name: str) -> str:
    found = lookup(name)
    return found.name if found else name


def _idle(host: str, seen: SeenGpus) -> HostFinding:
    busy = [f"pid {one.pid} ({one.command})" for one in seen.processes or ()]
    for gpu in seen.gpus:
        if gpu.memory_used_gib is not None and gpu.memory_used_gib > IDLE_GIB:
            busy.append(f"GPU {gpu.index} holds {gpu.memory_used_gib:.1f} GiB")
        elif gpu.utilisation_percent is not None and gpu.utilisation_percent > IDLE_PERCENT:
            busy.append(f"GPU {gpu.index} is {gpu.utilisation_percent:g} % busy")
    if busy:
        shown = ", ".join(busy[:8]) + (f" and {len(busy) - 8} more" if len(busy) > 8 else "")
        fix = "wait for it to end, or ask its owner; Steelyard ends nothing that it did not start"
        return IDLE.failed(host, f"its GPUs are in use: {shown}", fix, shown, "idle")
    if any(gpu.memory_used_gib is None for gpu in seen.gpus) or seen.processes is None:
        missing = "its programs" if seen.processes is None else "its memory in use"
        return IDLE.unknown(host, f"{seen.tool} does not tell {missing}", f"run `{seen.tool}` there", None, "idle")
    return IDLE.passed(host, "its GPUs are idle", "idle", "idle")
