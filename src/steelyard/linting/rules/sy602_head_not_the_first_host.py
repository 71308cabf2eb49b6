"""The address where ranks meet is not that of the first host.

Why: rank 0 listens on the first host. At another address nothing answers, and the job hangs until its time limit. An
address next to host names cannot be compared and is not reported.
Fix: use the address of the first host, or remove the key.
"""

import ipaddress

from steelyard.linting.rule import Case, Problems, Rule

RULE = Rule("SY602", "error")


def check(case: Case) -> Problems:
    head = case.resolved.platform.network.head
    if case.placement.nodes < 2 or head is None or case.reading.nodes_open:
        return
    first = (case.hosts[0], *case.head_names) if case.hosts else ()
    if head in ("localhost", "127.0.0.1", "::1"):
        expected = "an address that other nodes can reach"
    elif first and head not in first and _is_another(head, first, case.hosts[1:]):
        expected = f"{case.hosts[0]}, the first host of the cluster"
    else:
        return
    fix = f"write {case.hosts[0]}, or remove the key" if case.hosts else "write the address of the first host"
    yield RULE.problem(case, "platform.network.head", f"the address where ranks meet is {head}", fix, head, expected)


def _is_another(head: str, first: tuple[str, ...], others: tuple[str, ...]) -> bool:
    """Whether the address cannot be the first host's: an address and a name may be the same host."""
    return head in others or any(_is_address(name) == _is_address(head) for name in first)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
