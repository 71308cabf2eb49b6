"""One reading of a host's counters, in one round trip: every counter that was read, and why the others were not."""

import asyncio
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from steelyard.execute.counters.counts import VENDORS, HostCounter, gpu_errors, gpu_throttle, network
from steelyard.execute.host import Host, HostError
from steelyard.execute.preflight.kernel_log import PATTERN, UNREADABLE_FIX
from steelyard.execute.preflight.probe import Sections, probe
from steelyard.records.host_change import ECC, KERNEL_LOG, NETWORK, THROTTLE, Unread
from steelyard.secrets import redacted

GROUPS = (KERNEL_LOG, ECC, THROTTLE, NETWORK)
TOOL_S = 8
"""How long one tool may take: nvidia-smi wakes eight GPUs in some seconds where nothing else keeps them awake."""
_UNANSWERED_FIX = "see whether the host is up, and run `dmesg` there"
_ANSWER_FIX = "see what its tools print there (`dmesg`, `nvidia-smi -q`, `amd-smi metric`)"

_WORDS = {KERNEL_LOG: ("kernel_log_and_ends", PATTERN), NETWORK: ("nic_counters", "/sys")}
_GPU_WORDS = ("gpu_counters", "")


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
    """What a host counts, of `vendors`' GPUs at least; one that does not answer makes a reading that says why."""
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
    for group, (counted, unread) in (
        (ECC, gpu_errors(sections, vendors)),
        (THROTTLE, gpu_throttle(sections, vendors)),
        (NETWORK, network(sections)),
    ):
        if group in groups:
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
