"""What the vendors' tools count of their GPUs: memory errors, and what held the clocks back."""

from collections.abc import Callable, Collection, Iterator, Mapping

from steelyard.execute.counters.counter import HostCounter
from steelyard.execute.preflight.facts import vendors_of
from steelyard.execute.preflight.sections import Sections
from steelyard.execute.preflight.smi import GpuCount, amd_smi, nvidia_smi, rocm_smi
from steelyard.records.host_change import ECC, THROTTLE, Unread

Asked = tuple[str, str, Callable[[Sections], list[GpuCount] | None]]
"""A tool, the section of what it answered, and how that is read."""
Tools = Mapping[str, tuple[Asked, ...]]
"""By vendor, the better first."""

_ERRORS: Tools = {
    "nvidia": (("nvidia-smi", "nvidia_ecc", nvidia_smi.read_errors),),
    "amd": (("amd-smi", "amd_ecc", amd_smi.read_errors), ("rocm-smi", "rocm_ras", rocm_smi.read_errors)),
}
_THROTTLE: Tools = {
    "nvidia": (("nvidia-smi", "nvidia_throttle", nvidia_smi.read_throttle),),
    "amd": (("amd-smi", "amd_throttle", amd_smi.read_throttle),),
}
VENDORS = frozenset(_ERRORS)
Found = tuple[dict[HostCounter, int], list[Unread]]


def errors(sections: Sections, wanted: Collection[str] = VENDORS) -> Found:
    """Corrected and uncorrected errors of the memory, by GPU."""
    fix = "see whether its tool answers there, and whether ECC is on: `nvidia-smi -q -d ECC`, `amd-smi metric --ecc`"
    return _of_group(sections, wanted, ECC, _ERRORS, "it tells no count of memory errors", fix)


def throttle(sections: Sections, wanted: Collection[str] = VENDORS) -> Found:
    """What held the clocks back, by GPU and reason."""
    fix = "see whether its tool answers there; a newer driver counts it (amd-smi from ROCm 6.3 on)"
    return _of_group(sections, wanted, THROTTLE, _THROTTLE, "it does not count what holds the clocks back", fix)


def _of_group(sections: Sections, wanted: Collection[str], group: str, tools: Tools, silent: str, fix: str) -> Found:
    counts, missing = dict[HostCounter, int](), list[str]()
    for vendor in _vendors(sections, wanted):
        found = next((found for _, _, read in tools[vendor] if (found := read(sections))), [])
        counts |= {HostCounter(group, one.gpu, one.name): one.value for one in found}
        if not found:
            missing += _why(sections, tools[vendor], silent) or _why(sections, _ERRORS[vendor], silent)
    return counts, [Unread(group=group, reason="; ".join(missing), fix=fix)] if missing else []


def _vendors(sections: Sections, wanted: Collection[str]) -> Iterator[str]:
    """Whose GPUs are there, by their device nodes, or because their tool counts; with neither there is none.

    Of a vendor that the job has no use for, only a tool that is installed has to answer.
    """
    nodes = vendors_of(sections["gpu_nodes"])
    for vendor, tools in _ERRORS.items():
        installed = any(sections[name].status is not None for _, name, _ in tools)
        there = installed if nodes is None else vendor in nodes and (installed or vendor in wanted)
        if there or any(read(sections) for _, _, read in tools):
            yield vendor


def _why(sections: Sections, tools: tuple[Asked, ...], silent: str) -> list[str]:
    asked = [(tool, sections[name]) for tool, name, _ in tools if name in sections]
    return [f"{tool}: {silent if section.answered else section.reason}" for tool, section in asked]
