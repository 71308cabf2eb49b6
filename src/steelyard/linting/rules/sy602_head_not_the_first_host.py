"""The address where ranks meet is not the first host's.

Why: rank 0 listens there and runs on the first host; elsewhere nobody answers and the job hangs until its time limit.
Fix: name the first host, or leave the address out.
"""

from steelyard.linting.rule import Case, Problems, Rule

RULE = Rule("SY602", "error")


def check(case: Case) -> Problems:
    head = case.resolved.platform.network.head
    if case.placement.nodes < 2 or head is None or case.reading.nodes_open:
        return
    if case.hosts and head not in (case.hosts[0], *case.head_names):
        expected = f"{case.hosts[0]}, host 0 of the cluster"
    elif head in ("localhost", "127.0.0.1", "::1"):
        expected = "an address the other nodes reach"
    else:
        return
    fix = f"write {case.hosts[0]}, or leave it out" if case.hosts else "write the first host's address"
    yield RULE.problem(case, "platform.network.head", f"ranks are to meet at {head}", fix, head, expected)
