"""A job over several nodes turns off the fast network, or a single node its links.

Why: with NCCL_IB_DISABLE a "distributed RDMA" test measures TCP; with NCCL_P2P_DISABLE a single node does without the
links between its GPUs.
Fix: remove the variable.
"""

from steelyard.linting.rule import Case, Problems, Rule, environment

RULE = Rule("SY604", "warning")


def check(case: Case) -> Problems:
    nodes, given = case.placement.nodes, environment(case)
    for name, fewest_nodes in (("NCCL_IB_DISABLE", 2), ("NCCL_P2P_DISABLE", 1)):
        if name in given and given[name].value == "1" and nodes >= fewest_nodes:
            message = f"{name} is 1 on {nodes} node{'s' * (nodes != 1)}"
            yield RULE.at(case.reading, given[name], message, "remove it", "0, or not set")
