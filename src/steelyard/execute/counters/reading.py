"""One look at a host: every counter that was read, and why the others were not."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from steelyard.execute.counters import gpus, network
from steelyard.execute.counters.counter import HostCounter
from steelyard.execute.preflight.kernel_log import UNREADABLE_FIX
from steelyard.execute.preflight.sections import Sections
from steelyard.records.host_change import ECC, KERNEL_LOG, NETWORK, THROTTLE, Unread

GROUPS = (KERNEL_LOG, ECC, THROTTLE, NETWORK)


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


def read_counters(
    sections: Sections, groups: Collection[str] = GROUPS, vendors: Collection[str] = gpus.VENDORS
) -> Reading:
    """The sections of one host, as far as they were asked for; `vendors` are those whose GPUs the job is to use."""
    log, missing = _kernel_log(sections) if KERNEL_LOG in groups else (None, [])
    counts = dict[HostCounter, int]()
    for group, (found, unread) in (
        (ECC, gpus.errors(sections, vendors)),
        (THROTTLE, gpus.throttle(sections, vendors)),
        (NETWORK, network.read(sections)),
    ):
        if group in groups:
            counts |= found
            missing += unread
    return Reading(counts, log, {one.group: one for one in missing})


def _kernel_log(sections: Sections) -> tuple[KernelLog | None, list[Unread]]:
    """The program that told it, the log's first line and its last, then what may be a complaint."""
    section = sections["kernel_log_and_ends"]
    if not section.answered or len(section.lines) < 3:
        reason = "what was answered is no log" if section.answered else section.reason
        return None, [Unread(group=KERNEL_LOG, reason=reason, fix=UNREADABLE_FIX)]
    source, oldest, newest, *lines = section.lines
    return KernelLog(tuple(lines), oldest, newest, source), []
