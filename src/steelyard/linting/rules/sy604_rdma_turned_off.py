"""A job over several nodes turns off the fast network, or a single node its links.

Why: with NCCL_IB_DISABLE a "distributed RDMA" test measures TCP; with NCCL_P2P_DISABLE a single node does without the
links between its GPUs.
Fix: remove the variable.
"""

from collections.abc import Iterator

from steelyard.experiment import Problem
from steelyard.experiment.case import Case
from steelyard.linting.rule import Rule

RULE = Rule("SY604", "warning")


def check(case: Case) -> Iterator[Problem]:
    platform = case.resolved.platform
    env = {**(platform.container.env if platform.container else {}), **platform.env}
    for name, nodes in (("NCCL_IB_DISABLE", 2), ("NCCL_P2P_DISABLE", 1)):
        if env.get(name) == "1" and case.placement.nodes >= nodes:
            stated = case.reading.env.get(name)
            yield RULE.at(
                case.reading,
                stated.path if stated else ("platforms", case.resolved.platform_name or "", "env", name),
                message=f"{name} is 1 on {case.placement.nodes} node{'s' * (case.placement.nodes != 1)}",
                fix="remove it",
                value="1",
                expected="0, or not set",
            )
