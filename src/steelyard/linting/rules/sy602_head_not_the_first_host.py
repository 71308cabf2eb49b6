"""The address where ranks meet is not that of the first host.

Why: rank 0 listens on the first host. At another address nothing answers, and the job hangs until its time limit.
Fix: use the address of the first host, or remove the key.
"""

from steelyard.linting.rule import Case, Problems, Rule

RULE = Rule("SY602", "error")


def check(case: Case) -> Problems:
    head = case.resolved.platform.network.head
    if case.placement.nodes < 2 or head is None or case.reading.nodes_open:
        return
    if case.hosts and head not in (case.hosts[0], *case.head_names):
        expected = f"{case.hosts[0]}, the first host of the cluster"
    elif head in ("localhost", "127.0.0.1", "::1"):
        expected = "an address that other nodes can reach"
    else:
        return
    fix = f"write {case.hosts[0]}, or remove the key" if case.hosts else "write the address of the first host"
    yield RULE.problem(case, "platform.network.head", f"the address where ranks meet is {head}", fix, head, expected)
