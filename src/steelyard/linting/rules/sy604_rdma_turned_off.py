"""A job over several nodes turns off RDMA, or a job turns off the direct links between its GPUs.

Why: with NCCL_IB_DISABLE=1 a "distributed RDMA" test measures TCP. With NCCL_P2P_DISABLE=1 the GPUs of a node do not
use their links.
Fix: remove the variable.
"""

from steelyard.linting.rule import Case, Edit, Problems, Rule, environment

RULE = Rule("SY604", "warning")


def check(case: Case) -> Problems:
    nodes, given = case.placement.nodes, environment(case)
    for name, fewest_nodes in (("NCCL_IB_DISABLE", 2), ("NCCL_P2P_DISABLE", 1)):
        if name in given and given[name].value == "1" and nodes >= fewest_nodes:
            message = f"{name} is 1 on {nodes} node{'s' * (nodes != 1)}"
            choices = [Edit(given[name].path)]
            yield RULE.at(case.reading, given[name], message, "remove it", "0, or not set", choices=choices)
