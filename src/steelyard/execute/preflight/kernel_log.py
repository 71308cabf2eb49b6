"""The kernel has no complaint about GPUs, memory, PCIe or links since it started."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from steelyard.execute.preflight.facts import HostFacts
from steelyard.execute.preflight.finding import Check, Findings
from steelyard.execute.preflight.needs import Needs
from steelyard.reasons import Code

KERNEL_LOG = Check("kernel_log")
CHECKS = (KERNEL_LOG,)

KERNEL_LOG_CLEAN = Code("kernel_log_clean", "the kernel log has no complaint")
"""The kernel log has no errors of GPUs, memory, PCIe or links."""
KERNEL_LOG_COMPLAINS = Code("kernel_log_complains", "{complaint}, {observed:,} {unit}; the last: {last}")
"""The kernel log has errors of GPUs, memory, PCIe or links."""
KERNEL_LOG_UNREADABLE = Code("kernel_log_unreadable", "the kernel log cannot be read ({reason})")
"""The user cannot read the kernel log."""


@dataclass(frozen=True, slots=True)
class Complaint:
    """One family of lines; `pattern` is read by grep -iE as well, so it keeps to what both know."""

    name: str
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
    Complaint("out of memory", r"out of memory: kill|oom-kill:", "see what took the memory, and leave more to the job"),
)
LINK = Complaint("link down", r"link (is )?(up|down)", "see cable and switch port, and `ethtool` of the interface")
PATTERN = "|".join(f"({complaint.pattern})" for complaint in (*COMPLAINTS, LINK))

_COMPILED = [(complaint, re.compile(complaint.pattern, re.IGNORECASE)) for complaint in COMPLAINTS]
_HARMLESS = re.compile(r"\b(0|no) uncorrect|memory cgroup out of memory|constraint_memcg", re.IGNORECASE)
"""A count of none, and a container that outgrew its own bound, which says nothing of its host."""
_LINK = re.compile(r"(?P<device>[\w.@-]+)(\s\([^)]*\))?:? (?:NIC )?Link (is )?(?P<way>up|down)\b", re.IGNORECASE)
_LONGEST = 200
_LOOKED_AT = 1024
"""Of a line: the kernel writes no longer ones, and the patterns take their time over what is no line of its."""
UNREADABLE_FIX = "let this user read it: `sysctl kernel.dmesg_restrict=0`, or the group adm"


def complaints(lines: Sequence[str]) -> list[tuple[Complaint, list[str]]]:
    """What the log complains of, with the lines."""
    by_complaint: dict[Complaint, list[str]] = {}
    up: set[str] = set()
    for line in lines:
        text = line[:_LOOKED_AT]
        for complaint, pattern in _COMPILED:
            if pattern.search(text) and not _HARMLESS.search(text):
                by_complaint.setdefault(complaint, []).append(line)
                break
        else:
            link = _LINK.search(text)
            if link and link["way"].lower() == "up":
                up.add(link["device"])
            elif link and link["device"] in up:  # one that never was up has no cable
                by_complaint.setdefault(LINK, []).append(line)
    return list(by_complaint.items())


def check(needs: Needs, facts: HostFacts) -> Findings:
    for host, seen in facts.items():
        if seen.kernel_log is None:
            reason = seen.kernel_log_reason
            yield KERNEL_LOG.unknown(KERNEL_LOG_UNREADABLE, host, UNREADABLE_FIX, None, 0, reason=reason)
            continue
        by_complaint = complaints(seen.kernel_log)
        for kind, lines in by_complaint:
            shown = {
                "complaint": kind.name,
                "unit": "lines" if len(lines) > 1 else "line",
                "last": lines[-1][:_LONGEST],
            }
            yield KERNEL_LOG.failed(KERNEL_LOG_COMPLAINS, host, kind.fix, len(lines), 0, **shown)
        if not by_complaint:
            yield KERNEL_LOG.passed(KERNEL_LOG_CLEAN, host, 0, 0)
