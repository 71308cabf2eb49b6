"""Checks the kernel log for errors of GPUs, memory, PCIe and links since boot."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from steelyard.execute.preflight.facts import HostFacts
from steelyard.execute.preflight.finding import Check, Findings
from steelyard.execute.preflight.needs import Needs
from steelyard.reasons import Code

KERNEL_LOG = Check("kernel_log")
CHECKS = (KERNEL_LOG,)

KERNEL_LOG_CLEAN = Code("kernel_log_clean", "the kernel log has no errors")
"""The kernel log has no errors of GPUs, memory, PCIe or links."""
KERNEL_LOG_COMPLAINS = Code("kernel_log_complains", "{complaint} ({observed:,} {unit}); the last: {last}")
"""The kernel log has errors of GPUs, memory, PCIe or links."""
KERNEL_LOG_UNREADABLE = Code("kernel_log_unreadable", "cannot read the kernel log ({reason})")
"""The user cannot read the kernel log."""


@dataclass(frozen=True, slots=True)
class Complaint:
    """One kind of error; `pattern` is also used by `grep -iE`, so it uses only common syntax."""

    name: str
    pattern: str
    fix: str


_GPU = "drain the host, reset or reboot it, and test the GPU; replace the card if the error returns"
_PCIE = "reseat the card or its cable, and check `lspci -vvv` of the device"
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
    Complaint("out of memory", r"out of memory: kill|oom-kill:", "find the program that used the memory, and stop it"),
)
LINK = Complaint("link down", r"link (is )?(up|down)", "check cable and switch port, and `ethtool` of the interface")
PATTERN = "|".join(f"({complaint.pattern})" for complaint in (*COMPLAINTS, LINK))

_COMPILED = [(complaint, re.compile(complaint.pattern, re.IGNORECASE)) for complaint in COMPLAINTS]
_HARMLESS = re.compile(r"\b(0|no) uncorrect|memory cgroup out of memory|constraint_memcg", re.IGNORECASE)
"""A count of zero, and a container that exceeded its own memory limit, which is not an error of its host."""
_LINK = re.compile(r"(?P<device>[\w.@-]+)(\s\([^)]*\))?:? (?:NIC )?Link (is )?(?P<way>up|down)\b", re.IGNORECASE)
_LONGEST = 200
_LOOKED_AT = 1024
"""Characters per line: the kernel writes no longer lines, and the patterns are slow on long ones."""
UNREADABLE_FIX = "give this user access: `sysctl kernel.dmesg_restrict=0`, or the group adm"


def complaints(lines: Sequence[str]) -> list[tuple[Complaint, list[str]]]:
    """The errors in the log, with their lines."""
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
            elif link and link["device"] in up:  # a link that was never up has no cable
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
