"""What a host counts of its own troubles: read before a run and after it, and what changed between."""

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from steelyard.execute.host import Host, HostError
from steelyard.execute.preflight.facts import vendors_of
from steelyard.execute.preflight.kernel_log import PATTERN, UNREADABLE_FIX, complaints
from steelyard.execute.preflight.probe import Sections, count, probe
from steelyard.execute.preflight.smi import GpuCounts, amd_smi, nvidia_smi, rocm_smi
from steelyard.records.host_change import (
    ECC,
    KERNEL_LOG,
    NETWORK,
    THROTTLE,
    CounterChange,
    HostChange,
    KernelComplaint,
    Unread,
)
from steelyard.secrets import redacted

GROUPS = (KERNEL_LOG, ECC, THROTTLE, NETWORK)
TOOL_S = 8
"""How long one tool may take: nvidia-smi wakes eight GPUs in some seconds where nothing else keeps them awake."""
_UNANSWERED_FIX = "see whether the host is up, and run `dmesg` there"
_ANSWER_FIX = "see what its tools print there (`dmesg`, `nvidia-smi -q`, `amd-smi metric`)"
_WORDS = {KERNEL_LOG: ("kernel_log_and_ends", PATTERN), NETWORK: ("nic_counters", "/sys")}
_GPU_WORDS = ("gpu_counters", "")

_LINE = re.compile(
    r"(net/(?P<link>[^/]+)/(statistics/)?|infiniband/(?P<card>[^/]+)/ports/(?P<port>\d+)/(hw_)?counters/)"
    r"(?P<name>\w+):(?P<value>\d+)"
)
_TROUBLE = re.compile(
    r"err|drop|discard|retr[ay]|restart|nak|timeout|duplicate|out_of_(buffer|seq)|oos|missing|integrity|overrun|crc"
    r"|fifo|collisions|link_down|carrier_down"
)
"""Names of what goes wrong. Traffic, congestion marks (CNP, ECN) and waiting are no trouble: they grow in every job."""

Asked = tuple[str, str, Callable[[Sections], GpuCounts | None]]
"""A tool, the section of what it answered, and how that is read."""

_ERRORS: dict[str, tuple[Asked, ...]] = {
    "nvidia": (("nvidia-smi", "nvidia_ecc", nvidia_smi.read_errors),),
    "amd": (("amd-smi", "amd_ecc", amd_smi.read_errors), ("rocm-smi", "rocm_ras", rocm_smi.read_errors)),
}
_THROTTLE: dict[str, tuple[Asked, ...]] = {
    "nvidia": (("nvidia-smi", "nvidia_throttle", nvidia_smi.read_throttle),),
    "amd": (("amd-smi", "amd_throttle", amd_smi.read_throttle),),
}
_GPU_GROUPS = {
    ECC: (
        _ERRORS,
        "it tells no count of memory errors",
        "see whether its tool answers there, and whether ECC is on: `nvidia-smi -q -d ECC`, `amd-smi metric --ecc`",
    ),
    THROTTLE: (
        _THROTTLE,
        "it does not count what holds the clocks back",
        "see whether its tool answers there; a newer driver counts it (amd-smi from ROCm 6.3 on)",
    ),
}
"""The tools by vendor, the better first; why one that answers counts nothing, and what to do then."""
VENDORS = frozenset(_ERRORS)

CEILINGS = {
    "symbol_error": 0xFFFF,
    "link_error_recovery": 0xFF,
    "link_downed": 0xFF,
    "port_rcv_errors": 0xFFFF,
    "port_rcv_remote_physical_errors": 0xFFFF,
    "port_rcv_switch_relay_errors": 0xFFFF,
    "port_xmit_discards": 0xFFFF,
    "port_xmit_constraint_errors": 0xFF,
    "port_rcv_constraint_errors": 0xFF,
    "local_link_integrity_errors": 0xF,
    "excessive_buffer_overrun_errors": 0xF,
    "VL15_dropped": 0xFFFF,
}
"""Where InfiniBand's PortCounters stop counting (IB specification, volume 1, 16.1.3.5); they do not wrap."""

_GAP_FIX = "see the journal, where there is one (`journalctl -k`), or boot with a larger log_buf_len"
_STAMP = re.compile(r"\[\s*(?P<seconds>\d+\.\d+)\]")
_KEPT = 20
"""Lines of one complaint that are kept."""


class HostCounter(NamedTuple):
    """Whose it is, and what it counts."""

    group: str
    device: str
    name: str


Counts = tuple[dict[HostCounter, int], list[Unread]]
"""What was counted, and what could not be read."""


@dataclass(frozen=True, slots=True)
class KernelLog:
    """What the kernel's log holds that may be a complaint, and from where to where it reaches."""

    lines: tuple[str, ...]
    oldest: str = ""
    newest: str = ""
    source: str = "dmesg"
    """The program that told it: each writes the same line in its own way."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What one host counted at one moment; what is neither counted nor unread it has not, such as GPUs."""

    counts: Mapping[HostCounter, int] = field(default_factory=dict)
    kernel_log: KernelLog | None = None
    unread: Mapping[str, Unread] = field(default_factory=dict)
    """By group."""


def nothing_read(groups: Iterable[str], reason: str, fix: str) -> Reading:
    """Of a host that did not answer."""
    return Reading(unread={group: Unread(group=group, reason=reason, fix=fix) for group in groups})


async def read_host(
    host: Host, timeout_s: float, groups: Collection[str] = GROUPS, vendors: Collection[str] = VENDORS
) -> Reading:
    """What a host counts, of `vendors`' GPUs at least, in one round trip.

    One that does not answer makes a reading that says why.
    """
    words = [word for group in groups for word in _WORDS.get(group, ())]
    if {ECC, THROTTLE} & set(groups):
        words += _GPU_WORDS  # last: these are the tools that hang
    try:
        async with asyncio.timeout(timeout_s):
            answers = await probe(host, words, TOOL_S, timeout_s)
    except HostError as reason:
        return nothing_read(groups, redacted(reason.complaint), _UNANSWERED_FIX)
    except TimeoutError:
        return nothing_read(groups, f"no answer within {timeout_s:g} s", _UNANSWERED_FIX)
    try:
        return read_counters(answers, groups, vendors)
    except Exception as reason:  # noqa: BLE001 - a host may answer anything, and no reading ends a run
        return nothing_read(groups, f"what it answered cannot be read ({type(reason).__name__})", _ANSWER_FIX)


def read_counters(sections: Sections, groups: Collection[str] = GROUPS, vendors: Collection[str] = VENDORS) -> Reading:
    """The sections of one host, as far as they were asked for; `vendors` are those whose GPUs the job is to use."""
    log, missing = _kernel_log(sections) if KERNEL_LOG in groups else (None, [])
    counts = dict[HostCounter, int]()
    for group in (group for group in (ECC, THROTTLE, NETWORK) if group in groups):
        counted, unread = _network(sections) if group == NETWORK else _of_gpus(sections, vendors, group)
        counts |= counted
        missing += unread
    return Reading(counts, log, {unread.group: unread for unread in missing})


def _kernel_log(sections: Sections) -> tuple[KernelLog | None, list[Unread]]:
    """The program that told it, the log's first line and its last, then what may be a complaint."""
    section = sections["kernel_log_and_ends"]
    if not section.answered or len(section.lines) < 3:
        reason = "what was answered is no log" if section.answered else section.reason
        return None, [Unread(group=KERNEL_LOG, reason=reason, fix=UNREADABLE_FIX)]
    source, oldest, newest, *lines = section.lines
    return KernelLog(tuple(lines), oldest, newest, source), []


def _of_gpus(sections: Sections, vendors: Collection[str], group: str) -> Counts:
    """By GPU: errors of the memory, or what held the clocks back."""
    tools, silent, fix = _GPU_GROUPS[group]
    counts, missing = dict[HostCounter, int](), list[str]()
    for vendor in _vendors_there(sections, vendors):
        counted = next((counted for _, _, read in tools[vendor] if (counted := read(sections))), {})
        counts |= {HostCounter(group, gpu, name): value for (gpu, name), value in counted.items()}
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


def _network(sections: Sections) -> Counts:
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


def changed(before: Reading, after: Reading) -> HostChange:
    """What grew, what may have grown, what the kernel complained of, and what could not be read."""
    unread = {**after.unread, **before.unread}
    compared = Counter(counter.group for counter in before.counts.keys() & after.counts.keys())
    kernel = tuple[KernelComplaint, ...]()
    if before.kernel_log is not None and after.kernel_log is not None:
        reason, fix = _gap(before.kernel_log, after.kernel_log), _GAP_FIX
        if before.kernel_log.source == after.kernel_log.source:
            compared[KERNEL_LOG] = len(after.kernel_log.lines)
            kernel = tuple(_new_complaints(before.kernel_log, after.kernel_log))
        else:  # no line is as it was, so which of them are new cannot be told
            was, is_now = before.kernel_log.source, after.kernel_log.source
            reason, fix = f"it was told by {was} before and by {is_now} after, each in its own words", UNREADABLE_FIX
        if reason:
            unread[KERNEL_LOG] = Unread(group=KERNEL_LOG, reason=reason, fix=fix)
    counters = tuple(_counters(before, after))
    return HostChange(compared=dict(compared), counters=counters, kernel=kernel, unread=tuple(unread.values()))


def _counters(before: Reading, after: Reading) -> Iterator[CounterChange]:
    for counter in sorted({*before.counts, *after.counts}):
        group, device, name = counter
        was, is_now = before.counts.get(counter), after.counts.get(counter)
        at_ceiling = is_now is not None and is_now == CEILINGS.get(name)
        unread = (was is None and group in before.unread) or (is_now is None and group in after.unread)
        if unread or (was == is_now and not at_ceiling) or (was is None and is_now == 0):
            continue
        yield CounterChange(group=group, device=device, name=name, before=was, after=is_now)


def _new_complaints(before: KernelLog, after: KernelLog) -> Iterator[KernelComplaint]:
    """By lines and how often each was there, never by their number: old lines leave the log as new ones come.

    The old lines are read ahead of the new: only they tell that a link that is down now was up.
    """
    left, new = Counter(before.lines), list[str]()
    for line in after.lines:
        left[line] -= 1
        if left[line] < 0:
            new.append(line)
    known = {kind: len(lines) for kind, lines in complaints(before.lines)}
    for kind, lines in complaints([*before.lines, *new]):
        fresh = lines[known.get(kind, 0) :]
        if fresh:
            yield KernelComplaint(what=kind.name, fix=kind.fix, count=len(fresh), lines=tuple(fresh[-_KEPT:]))


def _gap(before: KernelLog, after: KernelLog) -> str:
    """Why lines may have come and gone unseen; nothing where they cannot, or where lines have no time."""
    stamps = [_STAMP.match(line) for line in (before.newest, after.oldest, after.newest)]
    if not all(stamps):
        return ""
    ended, begins, ends = (float(stamp["seconds"]) for stamp in stamps if stamp)
    if ends < ended:
        return "the kernel was started again meanwhile"
    return "its log turned over meanwhile, and lines may be lost" if begins > ended else ""
