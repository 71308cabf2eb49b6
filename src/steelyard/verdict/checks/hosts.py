"""No host counted trouble of its hardware while it trained."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from steelyard.records import Evidence
from steelyard.records.host_change import (
    ECC,
    HOST_COUNTERS,
    KERNEL_LOG,
    NETWORK,
    THROTTLE,
    CounterChange,
    HostChange,
    host_change,
)
from steelyard.records.writer import EVENTS
from steelyard.verdict.finding import Check, Found
from steelyard.verdict.subject import Subject

CHECK = Check("hosts")

_LINK = "see its cable, transceiver and switch port"
HARD = {
    (ECC, "uncorrected"): "drain the host and test the GPU; a card that does it again is to be replaced",
    (NETWORK, "link_downed"): _LINK,
    (NETWORK, "carrier_down_count"): _LINK,
}
"""Counters whose growth means broken hardware, and what to do; any other is told and fails nothing."""
SOFT_COMPLAINTS = frozenset({"corrected PCIe errors"})
"""What the kernel says of errors that cost nothing but time."""

_NAMES = {
    KERNEL_LOG: "the kernel log",
    ECC: "errors of the GPUs' memory",
    THROTTLE: "what held the GPUs' clocks back",
    NETWORK: "errors of the network cards",
}
_SHOWN = 6
_LONGEST = 200


@dataclass(frozen=True, slots=True)
class _Host:
    """One host's change, and the line that keeps it."""

    name: str
    change: HostChange
    evidence: Evidence


def check(subject: Subject) -> Iterator[Found]:
    events = [(at, one) for at, one in enumerate(subject.events, 1) if one.kind == HOST_COUNTERS]
    if not events:
        yield CHECK.not_applicable("no host was asked for its counters before and after")
        return
    hosts = list[_Host]()
    for at, event in events:
        name, evidence = event.node or "a host", Evidence(EVENTS, at)
        try:
            hosts.append(_Host(name, host_change(event), evidence))
        except ValueError as reason:
            yield CHECK.unknown(f"{name}: what it counted cannot be read ({reason})", None, 0, evidence)
    for host in hosts:
        yield from _failures(host)
    yield from _unknowns(hosts)
    for host in hosts:
        yield from _told(host)
    clean = [host.name for host in hosts if not any(_failures(host)) and not any(_unknowns([host]))]
    if clean:
        yield CHECK.passed(f"{', '.join(clean)}: no counter of broken hardware grew while it trained", 0, 0)


def _failures(host: _Host) -> Iterator[Found]:
    for said in host.change.kernel:
        if said.what not in SOFT_COMPLAINTS:
            message = f"{host.name}: the kernel says {said.what}, {_lines(said.count)} since the start; the last: "
            yield CHECK.failed(f"{message}{_last(said.lines)}; {said.fix}", said.count, 0, host.evidence)
    for (group, name), fix in HARD.items():
        grown = [one for one in host.change.counters if (one.group, one.name) == (group, name) and one.growth]
        if grown:
            message = f"{host.name}: {name} grew while it trained: {_listed(grown)}; {fix}"
            yield CHECK.failed(message, sum(one.growth or 0 for one in grown), 0, host.evidence)


def _unknowns(hosts: Sequence[_Host]) -> Iterator[Found]:
    """What could not be read, once for all hosts that say the same, and what went back or away."""
    silent = dict[str, list[_Host]]()
    for host in hosts:
        for missing in host.change.unread:
            what = _NAMES.get(missing.group, missing.group)
            silent.setdefault(f"{what} cannot be told ({missing.reason}); {missing.fix}", []).append(host)
    for message, of_it in silent.items():
        names = ", ".join(host.name for host in of_it)
        yield CHECK.unknown(f"{names}: {message}", None, 0, of_it[0].evidence)
    for host in hosts:
        if not host.change.compared and not host.change.unread:
            yield CHECK.unknown(f"{host.name}: nothing that it counts was compared", None, 0, host.evidence)
        unsure = [f"{one.name} of {one.device} ({one.words})" for one in host.change.counters if not one.growth]
        if unsure:
            message = f"{host.name}: whether it grew cannot be told of {_some(unsure)}"
            fix = "see who reset it, or whether the device is still there"
            yield CHECK.unknown(f"{message}; {fix}", None, 0, host.evidence)


def _told(host: _Host) -> Iterator[Found]:
    """What grew and breaks nothing by itself: corrected errors, drops, retries, clocks held back."""
    said = [f"{one.what} ({_lines(one.count)})" for one in host.change.kernel if one.what in SOFT_COMPLAINTS]
    soft = [one for one in host.change.counters if one.growth and (one.group, one.name) not in HARD]
    for name in dict.fromkeys(one.name for one in soft):
        of_it = sorted((one for one in soft if one.name == name), key=lambda one: -(one.growth or 0))
        most = f"{of_it[0].device}, {of_it[0].words}"
        said.append(f"{name} ({f'{len(of_it)} devices, most on {most}' if len(of_it) > 1 else most})")
    if said:
        message = f"{host.name}: these grew, which alone is no fault: {_some(said)}"
        yield CHECK.passed(message, len(said), None, host.evidence)


def _listed(changes: Sequence[CounterChange]) -> str:
    return _some([f"{one.device} ({one.words})" for one in changes])


def _some(words: Sequence[str]) -> str:
    return "; ".join(words[:_SHOWN]) + (f" and {len(words) - _SHOWN} more" if len(words) > _SHOWN else "")


def _lines(count: int) -> str:
    return f"{count:,} new {'line' if count == 1 else 'lines'}"


def _last(lines: Sequence[str]) -> str:
    return lines[-1][:_LONGEST] if lines else "not kept"
