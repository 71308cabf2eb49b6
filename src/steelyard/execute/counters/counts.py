"""What a host counts of its own troubles: errors of GPU memory, clocks held back, errors of its network."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import NamedTuple

from steelyard.execute.preflight.facts import vendors_of
from steelyard.execute.preflight.probe import Sections
from steelyard.execute.preflight.smi import GpuCount, amd_smi, count, nvidia_smi, rocm_smi
from steelyard.records.host_change import ECC, NETWORK, THROTTLE, Unread


class HostCounter(NamedTuple):
    """Whose it is, and what it counts."""

    group: str
    device: str
    name: str


_LINE = re.compile(
    r"(net/(?P<link>[^/]+)/(statistics/)?|infiniband/(?P<card>[^/]+)/ports/(?P<port>\d+)/(hw_)?counters/)"
    r"(?P<name>\w+):(?P<value>\d+)"
)
_TROUBLE = re.compile(
    r"err|drop|discard|retr[ay]|restart|nak|timeout|duplicate|out_of_(buffer|seq)|oos|missing|integrity|overrun|crc"
    r"|fifo|collisions|link_down|carrier_down"
)
"""Names of what goes wrong. Traffic, congestion marks (CNP, ECN) and waiting are no trouble: they grow in every job."""

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
Counts = tuple[dict[HostCounter, int], list[Unread]]
"""What was counted, and what could not be read."""


def gpu_errors(sections: Sections, vendors: Collection[str] = VENDORS) -> Counts:
    """Corrected and uncorrected errors of the memory, by GPU."""
    fix = "see whether its tool answers there, and whether ECC is on: `nvidia-smi -q -d ECC`, `amd-smi metric --ecc`"
    return _of_group(sections, vendors, ECC, _ERRORS, "it tells no count of memory errors", fix)


def gpu_throttle(sections: Sections, vendors: Collection[str] = VENDORS) -> Counts:
    """What held the clocks back, by GPU and reason."""
    fix = "see whether its tool answers there; a newer driver counts it (amd-smi from ROCm 6.3 on)"
    return _of_group(sections, vendors, THROTTLE, _THROTTLE, "it does not count what holds the clocks back", fix)


def _of_group(sections: Sections, vendors: Collection[str], group: str, tools: Tools, silent: str, fix: str) -> Counts:
    counts, missing = dict[HostCounter, int](), list[str]()
    for vendor in _vendors_there(sections, vendors):
        counted = next((counted for _, _, read in tools[vendor] if (counted := read(sections))), [])
        counts |= {HostCounter(group, gpu.gpu, gpu.name): gpu.value for gpu in counted}
        if not counted:
            missing += _why(sections, tools[vendor], silent) or _why(sections, _ERRORS[vendor], silent)
    return counts, [Unread(group=group, reason="; ".join(missing), fix=fix)] if missing else []


def _vendors_there(sections: Sections, vendors: Collection[str]) -> Iterator[str]:
    """Whose GPUs are there, by their device nodes, or because their tool counts; with neither there is none.

    Of a vendor that the job has no use for, only a tool that is installed has to answer.
    """
    nodes = vendors_of(sections["gpu_nodes"])
    for vendor, tools in _ERRORS.items():
        installed = any(sections[name].status is not None for _, name, _ in tools)
        there = installed if nodes is None else vendor in nodes and (installed or vendor in vendors)
        if there or any(read(sections) for _, _, read in tools):
            yield vendor


def _why(sections: Sections, tools: tuple[Asked, ...], silent: str) -> list[str]:
    asked = [(tool, sections[name]) for tool, name, _ in tools if name in sections]
    return [f"{tool}: {silent if section.answered else section.reason}" for tool, section in asked]


def network(sections: Sections) -> Counts:
    """What went wrong on each interface, and on each port of an RDMA card."""
    section = sections["nic_counters"]
    if not section.answered:
        return {}, [Unread(group=NETWORK, reason=section.reason, fix="see whether /sys/class/net is there")]
    counts = dict[HostCounter, int]()
    for line in section.lines:
        counter = _LINE.fullmatch(line)
        value = count(counter["value"]) if counter else None
        if counter is None or value is None or not _TROUBLE.search(counter["name"].lower()):
            continue
        device = counter["link"] or f"{counter['card']} port {counter['port']}"
        counts[HostCounter(NETWORK, device, counter["name"])] = value
    return counts, []
