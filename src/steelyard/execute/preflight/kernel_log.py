"""The kernel has no complaint about GPUs, memory, PCIe or links since it started."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from steelyard.execute.preflight.facts import Facts
from steelyard.execute.preflight.finding import Check, HostFinding
from steelyard.execute.preflight.needs import Needs

KERNEL_LOG = Check("kernel_log")
CHECKS = (KERNEL_LOG,)


@dataclass(frozen=True, slots=True)
class Complaint:
    """One family of lines; `pattern` is read by grep -iE as well, so it keeps to what both know."""

    what: str
    pattern: str
    fix: str


_GPU = "drain the host and test the GPU; a reset or a reboot clears it, and if it returns the card is to be replaced"
_PCIE = "reseat the card or its cable, and see `lspci -vvv` of the device"
COMPLAINTS = (
    Complaint("Xid", r"NVRM: Xid", _GPU),
    Complaint("GPU off the bus", r"fallen off the bus", _GPU),
    Complaint("uncorrectable memory errors", r"uncorrect(ed|able)[^:]*(error|ecc)|double[- ]bit (ecc )?error", _GPU),
    Complaint("GPU reset", r"amdgpu.*(gpu reset|gpu hang|hws hang|ring [^ ]+ timeout)", _GPU),
    Complaint(
        "corrected PCIe errors",
        r"pcie bus error: severity=correct(ed|able)|aer: (multiple )?correct(ed|able) error",
        _PCIE,
    ),
    Complaint("PCIe errors", r"pcie bus error: severity=|aer: .*error (message )?received", _PCIE),
    Complaint(
        "out of memory",
        r"out of memory: kill|oom-kill:",
        "see what took the memory, and leave more to the job",
    ),
)
LINK = Complaint("link down", r"link (is )?(up|down)", "see cable and switch port, and `ethtool` of the interface")
PATTERN = "|".join(f"({one.pattern})" for one in (*COMPLAINTS, LINK))

_COMPILED = [(one, re.compile(one.pattern, re.IGNORECASE)) for one in COMPLAINTS]
_HARMLESS = re.compile(r"\b(0|no) uncorrect|memory cgroup out of memory|constraint_memcg", re.IGNORECASE)
"""A count of none, and a container that outgrew its own bound, which says nothing of its host."""
_LINK = re.compile(r"(?P<device>[\w.@-]+)(\s\([^)]*\))?:? (?:NIC )?Link (is )?(?P<way>up|down)\b", re.IGNORECASE)
_LONGEST = 200
_LOOKED_AT = 1024
"""Of a line: the kernel writes no longer ones, and the patterns take their time over what is no line of its."""
UNREADABLE_FIX = "let this user read it: `sysctl kernel.dmesg_restrict=0`, or the group adm"


def complaints(lines: Sequence[str]) -> list[tuple[Complaint, list[str]]]:
    """What the log complains of, with the lines."""
    found: dict[str, tuple[Complaint, list[str]]] = {}
    up: set[str] = set()
    for line in lines:
        text = line[:_LOOKED_AT]
        for one, pattern in _COMPILED:
            if pattern.search(text) and not _HARMLESS.search(text):
                found.setdefault(one.what, (one, []))[1].append(line)
                break
        else:
            link = _LINK.search(text)
            if link and link["way"].lower() == "up":
                up.add(link["device"])
            elif link and link["device"] in up:  # one that never was up has no cable
                found.setdefault(LINK.what, (LINK, []))[1].append(line)
    return list(found.values())


def check(needs: Needs, facts: Mapping[str, Facts]) -> Iterator[HostFinding]:
    for host, seen in facts.items():
        if seen.kernel_log is None:
            message = f"the kernel log cannot be read ({seen.kernel_log_reason})"
            yield KERNEL_LOG.unknown(host, message, UNREADABLE_FIX, None, 0)
            continue
        found = complaints(seen.kernel_log)
        for one, lines in found:
            message = (
                f"{one.what}, {len(lines):,} {'lines' if len(lines) > 1 else 'line'}; the last: {lines[-1][:_LONGEST]}"
            )
            yield KERNEL_LOG.failed(host, message, one.fix, len(lines), 0)
        if not found:
            yield KERNEL_LOG.passed(host, "the kernel log has no complaint", 0, 0)
