"""Reads the error counters of a host before and after a run, and finds what changed."""

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
"""How long one tool may take: nvidia-smi needs some seconds to wake eight GPUs."""
_UNANSWERED_FIX = "check that the host is up, and run `dmesg` on it"
_ANSWER_FIX = "run `dmesg`, `nvidia-smi -q` or `amd-smi metric` on the host to see their output"
_WORDS = {KERNEL_LOG: ("kernel_log_and_ends", PATTERN), NETWORK: ("nic_counters", "/sys")}
_GPU_WORDS = ("gpu_counters", "")

_LINE = re.compile(
    r"(net/(?P<link>[^/]+)/(statistics/)?|infiniband/(?P<card>[^/]+)/ports/(?P<port>\d+)/(hw_)?counters/)"
    r"(?P<name>\w+):(?P<value>\d+)"
)
_ERROR_NAME = re.compile(
    r"err|drop|discard|retr[ay]|restart|nak|timeout|duplicate|out_of_(buffer|seq)|oos|missing|integrity|overrun|crc"
    r"|fifo|collisions|link_down|carrier_down"
)
"""Names of error counters. Traffic, congestion marks (CNP, ECN) and waits are left out: they grow in every job."""

Source = tuple[str, str, Callable[[Sections], GpuCounts | None]]
"""A tool, the section with its output, and the function that reads it."""

_ERRORS: dict[str, tuple[Source, ...]] = {
    "nvidia": (("nvidia-smi", "nvidia_ecc", nvidia_smi.read_errors),),
    "amd": (("amd-smi", "amd_ecc", amd_smi.read_errors), ("rocm-smi", "rocm_ras", rocm_smi.read_errors)),
}
_THROTTLE: dict[str, tuple[Source, ...]] = {
    "nvidia": (("nvidia-smi", "nvidia_throttle", nvidia_smi.read_throttle),),
    "amd": (("amd-smi", "amd_throttle", amd_smi.read_throttle),),
}
_GPU_GROUPS = {
    ECC: (
        _ERRORS,
        "no memory error counts",
        "check that ECC is on: `nvidia-smi -q -d ECC` or `amd-smi metric --ecc`",
    ),
    THROTTLE: (
        _THROTTLE,
        "no throttle counts",
        "install a newer driver (amd-smi: ROCm 6.3 or later)",
    ),
}
"""Tools by vendor, the better first; the reason when a tool answers without counts, and the fix."""
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

_GAP_FIX = "read the journal (`journalctl -k`), or boot with a larger log_buf_len"
_STAMP = re.compile(r"\[\s*(?P<seconds>\d+\.\d+)\]")
_KEPT = 20
"""Lines that are kept per kernel error."""


class HostCounter(NamedTuple):
    """One counter of one device."""

    group: str
    device: str
    name: str


Counts = tuple[dict[HostCounter, int], list[Unread]]
"""Counters, and the groups that could not be read."""


@dataclass(frozen=True, slots=True)
class KernelLog:
    """Lines of the kernel log that may be errors, and its first and last line."""

    lines: tuple[str, ...]
    oldest: str = ""
    newest: str = ""
    source: str = "dmesg"
    """The program that printed it: each formats the same line differently."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The counters of one host at one time. A group in neither `counts` nor `unread` does not exist there."""

    counts: Mapping[HostCounter, int] = field(default_factory=dict)
    kernel_log: KernelLog | None = None
    unread: Mapping[str, Unread] = field(default_factory=dict)
    """By group."""


def nothing_read(groups: Iterable[str], reason: str, fix: str) -> Reading:
    """The reading of a host that did not answer."""
    return Reading(unread={group: Unread(group=group, reason=reason, fix=fix) for group in groups})


async def read_host(
    host: Host, timeout_s: float, groups: Collection[str] = GROUPS, vendors: Collection[str] = VENDORS
) -> Reading:
    """Read the counters of a host in one round trip; GPUs of `vendors` are required.

    For a host that does not answer, the reading contains the reason.
    """
    words = [word for group in groups for word in _WORDS.get(group, ())]
    if {ECC, THROTTLE} & set(groups):
        words += _GPU_WORDS  # last: these tools may hang
    try:
        async with asyncio.timeout(timeout_s):
            answers = await probe(host, words, TOOL_S, timeout_s)
    except HostError as reason:
        return nothing_read(groups, redacted(reason.complaint), _UNANSWERED_FIX)
    except TimeoutError:
        return nothing_read(groups, f"no answer within {timeout_s:g} s", _UNANSWERED_FIX)
    try:
        return read_counters(answers, groups, vendors)
    except Exception as reason:  # noqa: BLE001 - a host may answer anything; that must not end the run
        return nothing_read(groups, f"unreadable output: {type(reason).__name__}", _ANSWER_FIX)


def read_counters(sections: Sections, groups: Collection[str] = GROUPS, vendors: Collection[str] = VENDORS) -> Reading:
    """Read the sections of one host; `vendors` are those whose GPUs the job uses."""
    log, missing = _kernel_log(sections) if KERNEL_LOG in groups else (None, [])
    counts = dict[HostCounter, int]()
    for group in (group for group in (ECC, THROTTLE, NETWORK) if group in groups):
        counted, unread = _network(sections) if group == NETWORK else _of_gpus(sections, vendors, group)
        counts |= counted
        missing += unread
    return Reading(counts, log, {unread.group: unread for unread in missing})


def _kernel_log(sections: Sections) -> tuple[KernelLog | None, list[Unread]]:
    """The section has the program, the first and the last line of the log, then the lines that may be errors."""
    section = sections["kernel_log_and_ends"]
    if not section.answered or len(section.lines) < 3:
        reason = "the answer is not a log" if section.answered else section.reason
        return None, [Unread(group=KERNEL_LOG, reason=reason, fix=UNREADABLE_FIX)]
    source, oldest, newest, *lines = section.lines
    return KernelLog(tuple(lines), oldest, newest, source), []


def _of_gpus(sections: Sections, vendors: Collection[str], group: str) -> Counts:
    """Per GPU: memory errors, or throttling."""
    tools, no_counts, fix = _GPU_GROUPS[group]
    counts, missing = dict[HostCounter, int](), list[str]()
    for vendor in _vendors_present(sections, vendors):
        counted = next((counted for _, _, read in tools[vendor] if (counted := read(sections))), {})
        counts |= {HostCounter(group, gpu, name): value for (gpu, name), value in counted.items()}
        if not counted:
            missing += _why(sections, tools[vendor], no_counts) or _why(sections, _ERRORS[vendor], no_counts)
    return counts, [Unread(group=group, reason="; ".join(missing), fix=fix)] if missing else []


def _vendors_present(sections: Sections, vendors: Collection[str]) -> Iterator[str]:
    """Vendors of the host's GPUs, found by their device nodes or by the output of their tools.

    For a vendor that the job does not use, the tool must answer only if it is installed.
    """
    nodes = vendors_of(sections["gpu_nodes"])
    for vendor, tools in _ERRORS.items():
        installed = any(sections[name].status is not None for _, name, _ in tools)
        present = installed if nodes is None else vendor in nodes and (installed or vendor in vendors)
        if present or any(read(sections) for _, _, read in tools):
            yield vendor


def _why(sections: Sections, tools: tuple[Source, ...], no_counts: str) -> list[str]:
    tried = [(tool, sections[name]) for tool, name, _ in tools if name in sections]
    return [f"{tool}: {no_counts if section.answered else section.reason}" for tool, section in tried]


def _network(sections: Sections) -> Counts:
    """Errors per network interface and per port of an RDMA card."""
    section = sections["nic_counters"]
    if not section.answered:
        return {}, [Unread(group=NETWORK, reason=section.reason, fix="check that /sys/class/net exists")]
    counts = dict[HostCounter, int]()
    for line in section.lines:
        counter = _LINE.fullmatch(line)
        value = count(counter["value"]) if counter else None
        if counter is None or value is None or not _ERROR_NAME.search(counter["name"].lower()):
            continue
        device = counter["link"] or f"{counter['card']} port {counter['port']}"
        counts[HostCounter(NETWORK, device, counter["name"])] = value
    return counts, []


def changed(before: Reading, after: Reading) -> HostChange:
    """Counters that changed, new kernel errors, and groups that could not be read."""
    unread = {**after.unread, **before.unread}
    compared = Counter(counter.group for counter in before.counts.keys() & after.counts.keys())
    kernel = tuple[KernelComplaint, ...]()
    if before.kernel_log is not None and after.kernel_log is not None:
        reason, fix = _gap(before.kernel_log, after.kernel_log), _GAP_FIX
        if before.kernel_log.source == after.kernel_log.source:
            compared[KERNEL_LOG] = len(after.kernel_log.lines)
            kernel = tuple(_new_complaints(before.kernel_log, after.kernel_log))
        else:  # the programs format lines differently, so new lines cannot be recognized
            was, is_now = before.kernel_log.source, after.kernel_log.source
            reason, fix = f"it was read with {was} before the run and with {is_now} after it", UNREADABLE_FIX
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
    """Found by the text and count of each line, not by line number: old lines leave the log as new ones come.

    Old lines are included, because they show whether a link that is down now was up before.
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
    """Why lines may be missing between the readings; empty if none are, or if lines have no timestamp."""
    stamps = [_STAMP.match(line) for line in (before.newest, after.oldest, after.newest)]
    if not all(stamps):
        return ""
    ended, begins, ends = (float(stamp["seconds"]) for stamp in stamps if stamp)
    if ends < ended:
        return "the host was rebooted during the run"
    return "the log was overwritten during the run; lines may be lost" if begins > ended else ""
