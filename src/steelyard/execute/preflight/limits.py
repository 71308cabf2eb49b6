"""A program may open enough files and, to send over RDMA, pin enough memory."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from steelyard.execute.preflight.facts import Facts
from steelyard.execute.preflight.finding import Check, HostFinding
from steelyard.execute.preflight.needs import Needs

MEMLOCK = Check("memlock")
NOFILE = Check("nofile")
CHECKS = (MEMLOCK, NOFILE)

_KIB_PER_GIB = 2**20


def check(needs: Needs, facts: Mapping[str, Facts]) -> Iterator[HostFinding]:
    """A container is given limits of its own by the plan; those of the host do not bind it."""
    if needs.image is not None:
        return
    for host, seen in facts.items():
        if needs.memlock_gib is not None:
            gib = None if seen.memlock_kib is None else seen.memlock_kib / _KIB_PER_GIB
            yield _judged(MEMLOCK, needs, host, gib, needs.memlock_gib, " GiB", "memlock unlimited")
        yield _judged(NOFILE, needs, host, seen.nofile, needs.nofile, "", f"nofile {needs.nofile}")


def _judged(
    kind: Check, needs: Needs, host: str, found: float | None, least: float, unit: str, line: str
) -> HostFinding:
    kind = replace(kind, required=needs.over_rdma)
    expected = f"at least {least:,g}{unit}"
    fix = f"`* - {line}` in /etc/security/limits.conf there, then log in anew"
    if found is None:
        return kind.unknown(host, f"the limit {kind.name} is not known", fix, None, expected)
    said = "unlimited" if found == float("inf") else f"{round(found, 2):,}{unit}"
    if found < least:
        return kind.failed(host, f"{kind.name} is {said}, and {expected} is needed", fix, said, expected)
    return kind.passed(host, f"{kind.name} is {said}", said, expected)
