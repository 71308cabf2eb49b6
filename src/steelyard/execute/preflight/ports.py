"""The port where the ranks meet is free on the head."""

from collections.abc import Iterator, Mapping

from steelyard.execute.preflight.facts import Facts
from steelyard.execute.preflight.finding import Check, HostFinding
from steelyard.execute.preflight.needs import Needs

PORTS = Check("ports", required=True)
CHECKS = (PORTS,)


def check(needs: Needs, facts: Mapping[str, Facts]) -> Iterator[HostFinding]:
    for host in needs.heads:
        if host not in facts:
            continue
        listening = facts[host].listening
        for port in needs.ports:
            look = f"`ss -ltnp 'sport = :{port}'` there names who has it"
            if listening is None:
                yield PORTS.unknown(host, f"whether port {port} is free is not known", look, None, "free")
            elif port in listening:
                fix = f"{look}; end it, or choose another port (network.port)"
                yield PORTS.failed(host, f"port {port}, where the ranks meet, is taken", fix, "taken", "free")
            else:
                yield PORTS.passed(host, f"port {port} is free", "free", "free")
