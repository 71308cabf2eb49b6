"""Checks the limits for open files and, with RDMA, for locked memory."""

from dataclasses import replace

from steelyard.execute.preflight.facts import KIB_PER_GIB, HostFacts
from steelyard.execute.preflight.finding import Check, Findings, HostFinding
from steelyard.execute.preflight.needs import Needs
from steelyard.reasons import Code

MEMLOCK = Check("memlock")
NOFILE = Check("nofile")
CHECKS = (MEMLOCK, NOFILE)

LIMIT_ENOUGH = Code("limit_enough", "{limit} is {observed}")
"""The limit of the user on the host is high enough."""
LIMIT_LOW = Code("limit_low", "{limit} is {observed}; needed: {expected}")
"""The limit of the user on the host is lower than is needed."""
LIMIT_UNKNOWN = Code("limit_unknown", "{limit} is unknown")
"""The host does not report the limit of the user."""


def check(needs: Needs, facts: HostFacts) -> Findings:
    """Only without a container: the plan gives a container its own limits."""
    for host, seen in facts.items() if needs.image is None else ():
        if needs.memlock_gib is not None:
            gib = None if seen.memlock_kib is None else seen.memlock_kib / KIB_PER_GIB
            yield _judged(MEMLOCK, needs, host, gib, needs.memlock_gib, " GiB", "memlock unlimited")
        yield _judged(NOFILE, needs, host, seen.nofile, needs.nofile, "", f"nofile {needs.nofile}")


def _judged(
    kind: Check, needs: Needs, host: str, value: float | None, least: float, unit: str, line: str
) -> HostFinding:
    kind = replace(kind, required=needs.over_rdma)
    expected = f"at least {least:,g}{unit}"
    fix = f"add `* - {line}` to /etc/security/limits.conf on the host, then log in again"
    if value is None:
        return kind.unknown(LIMIT_UNKNOWN, host, fix, None, expected, limit=kind.name)
    shown = "unlimited" if value == float("inf") else f"{round(value, 2):,}{unit}"
    if value < least:
        return kind.failed(LIMIT_LOW, host, fix, shown, expected, limit=kind.name)
    return kind.passed(LIMIT_ENOUGH, host, shown, expected, limit=kind.name)
