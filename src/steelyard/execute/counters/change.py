"""From two readings of a host's counters to what changed between them."""

import re
from collections import Counter
from collections.abc import Iterator

from steelyard.execute.counters.reading import KernelLog, Reading
from steelyard.execute.preflight.kernel_log import UNREADABLE_FIX, complaints
from steelyard.records.host_change import KERNEL_LOG, CounterChange, HostChange, KernelComplaint, Unread

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
    return HostChange(
        compared=dict(compared),
        counters=tuple(_counters(before, after)),
        kernel=kernel,
        unread=tuple(unread.values()),
    )


def _counters(before: Reading, after: Reading) -> Iterator[CounterChange]:
    for counter in sorted({*before.counts, *after.counts}):
        group, device, name = counter
        was, is_now = before.counts.get(counter), after.counts.get(counter)
        at_ceiling = is_now is not None and is_now == CEILINGS.get(name)
        untold = (was is None and group in before.unread) or (is_now is None and group in after.unread)
        if untold or (was == is_now and not at_ceiling) or (was is None and is_now == 0):
            continue
        yield CounterChange(group=group, device=device, name=name, before=was, after=is_now)


def _new_complaints(before: KernelLog, after: KernelLog) -> Iterator[KernelComplaint]:
    """By lines and how often each was there, never by their number: old lines leave the log as new ones come.

    The old lines are read ahead of the new: only they tell that a link that is down now was up.
    """
    old, left = list(before.lines), Counter(before.lines)
    new = [line for line in after.lines if not _take(left, line)]
    known = {kind.what: len(lines) for kind, lines in complaints(old)}
    for kind, lines in complaints([*old, *new]):
        fresh = lines[known.get(kind.what, 0) :]
        if fresh:
            yield KernelComplaint(what=kind.what, fix=kind.fix, count=len(fresh), lines=tuple(fresh[-_KEPT:]))


def _take(left: Counter[str], line: str) -> bool:
    """Whether a line was there already, each as often as it was."""
    left[line] -= 1
    return left[line] >= 0


def _gap(before: KernelLog, after: KernelLog) -> str:
    """Why lines may have come and gone unseen; nothing where they cannot, or where lines have no time."""
    ended, begins, ends = (_seconds(line) for line in (before.newest, after.oldest, after.newest))
    if ended is None or begins is None or ends is None:
        return ""
    if ends < ended:
        return "the kernel was started again meanwhile"
    return "its log turned over meanwhile, and lines may be lost" if begins > ended else ""


def _seconds(line: str) -> float | None:
    stamp = _STAMP.match(line)
    return float(stamp["seconds"]) if stamp else None
