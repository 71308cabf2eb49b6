"""No error counter of a host's hardware grew during the run."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from steelyard.reasons import Code
from steelyard.records import Evidence, host_change
from steelyard.records.writer import EVENTS
from steelyard.verdict.finding import Check, Results
from steelyard.verdict.subject import Subject

CHECK = Check("hosts")

_LINK = "check its cable, transceiver and switch port"
HARD = {
    (host_change.ECC, "uncorrected"): "drain the host and test the GPU; replace it if the errors return",
    (host_change.NETWORK, "link_downed"): _LINK,
    (host_change.NETWORK, "carrier_down_count"): _LINK,
}
"""Counters whose growth means broken hardware, and what to do. Growth of other counters is shown but does not fail."""
SOFT_COMPLAINTS = frozenset({"corrected PCIe errors"})
"""Errors in the kernel log that only cost time."""

_NAMES = {
    host_change.KERNEL_LOG: "kernel log",
    host_change.ECC: "GPU memory errors",
    host_change.THROTTLE: "GPU clock throttling",
    host_change.NETWORK: "network card errors",
}
_SHOWN = 6
_LONGEST = 200


def _some(words: Sequence[str]) -> str:
    return "; ".join(words[:_SHOWN]) + (f" and {len(words) - _SHOWN} more" if len(words) > _SHOWN else "")


def _lines(count: int) -> str:
    return f"{count:,} new {'line' if count == 1 else 'lines'}"


def _soft_sentence(host: str, complaints: Sequence[Any], counters: Mapping[str, Sequence[Any]], **_: object) -> str:
    grown = [f"{complaint.what} ({_lines(complaint.count)})" for complaint in complaints]
    for name, changes in counters.items():
        most = f"{changes[0].device}, {changes[0].words}"
        grown.append(f"{name} ({f'{len(changes)} devices, most on {most}' if len(changes) > 1 else most})")
    return f"{host}: counters grew that alone are harmless: {_some(grown)}"


HOSTS_HEALTHY = Code(
    "hosts_healthy", lambda hosts, **_: f"{', '.join(hosts)}: no hardware error counter grew during the run"
)
"""No counter of broken hardware grew on these hosts during the run."""
KERNEL_ERRORS = Code(
    "kernel_errors",
    lambda host, complaint, **_: (
        f"{host}: {complaint.what} in the kernel log, {_lines(complaint.count)}, last: "
        f"{complaint.lines[-1][:_LONGEST] if complaint.lines else 'not recorded'}; {complaint.fix}"
    ),
)
"""The kernel log of a host has new lines about broken hardware."""
HARDWARE_COUNTER_GREW = Code(
    "hardware_counter_grew",
    lambda host, counter, changes, fix, **_: (
        f"{host}: {counter} grew during the run: "
        f"{_some([f'{change.device} ({change.words})' for change in changes])}; {fix}"
    ),
)
"""A counter that means broken hardware grew on a host during the run."""
SOFT_COUNTERS_GREW = Code("soft_counters_grew", _soft_sentence)
"""Counters grew on a host during the run that do not mean broken hardware by themselves."""
COUNTERS_MALFORMED = Code("counters_malformed", "{host}: recorded counters are not readable ({error})")
"""The recorded counters of a host cannot be read."""
COUNTERS_UNREAD = Code(
    "counters_unread",
    lambda hosts, counters, why, fix, **_: f"{', '.join(hosts)}: {counters} not readable ({why}); {fix}",
)
"""Some counters of these hosts could not be read."""
COUNTERS_NOT_COMPARED = Code("counters_not_compared", "{host}: no counters compared")
"""No counter of a host was compared."""
COUNTER_GROWTH_UNKNOWN = Code(
    "counter_growth_unknown",
    lambda host, changes, **_: (
        f"{host}: growth unknown of "
        f"{_some([f'{change.name} of {change.device} ({change.words})' for change in changes])}"
        "; check whether it was reset, and whether the device is still present"
    ),
)
"""A counter of a host was reset, or its device disappeared, so its growth is unknown."""
HOSTS_NOT_READ = Code("hosts_not_read", "host counters not recorded")
"""The counters of the hosts were not read before and after the run."""


class _Host(NamedTuple):
    name: str
    change: host_change.HostChange
    evidence: Evidence


def check(subject: Subject) -> Results:
    events = [(at, event) for at, event in enumerate(subject.events, 1) if event.kind == host_change.HOST_COUNTERS]
    if not events:
        yield CHECK.not_applicable(HOSTS_NOT_READ)
    hosts = list[_Host]()
    for at, event in events:
        name, evidence = event.node or "a host", Evidence(EVENTS, at)
        try:
            hosts.append(_Host(name, host_change.read_change(event), evidence))
        except ValueError as error:
            yield CHECK.unknown(COUNTERS_MALFORMED, None, 0, evidence, host=name, error=error)
    for host in hosts:
        yield from _failures(host)
    yield from _unknowns(hosts)
    for host in hosts:
        yield from _soft_growth(host)
    sound = tuple(host.name for host in hosts if not any(_failures(host)) and not any(_unknowns([host])))
    if sound:
        yield CHECK.passed(HOSTS_HEALTHY, 0, 0, hosts=sound)


def _failures(host: _Host) -> Results:
    for complaint in host.change.kernel:
        if complaint.what not in SOFT_COMPLAINTS:
            yield CHECK.failed(KERNEL_ERRORS, complaint.count, 0, host.evidence, host=host.name, complaint=complaint)
    for (group, name), fix in HARD.items():
        changes = [change for change in host.change.counters if (change.group, change.name) == (group, name)]
        if growth := sum(change.growth or 0 for change in changes):
            values = {"counter": name, "changes": tuple(change for change in changes if change.growth), "fix": fix}
            yield CHECK.failed(HARDWARE_COUNTER_GREW, growth, 0, host.evidence, host=host.name, **values)


def _unknowns(hosts: Sequence[_Host]) -> Results:
    """Counters that could not be read, once for all hosts with the same reason, and counters that went down or away."""
    hosts_of = dict[host_change.Unread, list[_Host]]()
    for host in hosts:
        for unread in host.change.unread:
            hosts_of.setdefault(unread, []).append(host)
    for unread, affected in hosts_of.items():
        values = {"counters": _NAMES.get(unread.group, unread.group), "why": unread.reason, "fix": unread.fix}
        names = tuple(host.name for host in affected)
        yield CHECK.unknown(COUNTERS_UNREAD, None, 0, affected[0].evidence, hosts=names, **values)
    for host in hosts:
        if not host.change.compared and not host.change.unread:
            yield CHECK.unknown(COUNTERS_NOT_COMPARED, None, 0, host.evidence, host=host.name)
        if unclear := tuple(change for change in host.change.counters if not change.growth):
            yield CHECK.unknown(COUNTER_GROWTH_UNKNOWN, None, 0, host.evidence, host=host.name, changes=unclear)


def _soft_growth(host: _Host) -> Results:
    """Growth that alone does not mean broken hardware: corrected errors, drops, retries, throttled clocks."""
    complaints = tuple(complaint for complaint in host.change.kernel if complaint.what in SOFT_COMPLAINTS)
    soft = [change for change in host.change.counters if change.growth and (change.group, change.name) not in HARD]
    counters = {
        name: sorted((change for change in soft if change.name == name), key=lambda change: -(change.growth or 0))
        for name in dict.fromkeys(change.name for change in soft)
    }
    if grown := len(complaints) + len(counters):
        values = {"host": host.name, "complaints": complaints, "counters": counters}
        yield CHECK.passed(SOFT_COUNTERS_GREW, grown, None, host.evidence, **values)
