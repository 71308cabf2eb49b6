"""A variable that the plan sets itself, to another value.

Why: of two values one wins, and the file and the job then disagree about batch, sizes or addresses.
Fix: remove it, and change the key that decides it.
"""

from collections.abc import Iterator

from steelyard import accounting
from steelyard.experiment import Problem
from steelyard.experiment.case import Case
from steelyard.frameworks.cases import refusals
from steelyard.frameworks.planner import Node
from steelyard.frameworks.registry import facts, is_planned, planner
from steelyard.linting.rule import Rule

RULE = Rule("SY120", "error")


def check(case: Case) -> Iterator[Problem]:
    platform = case.resolved.platform
    given = {**(platform.container.env if platform.container else {}), **platform.env}
    known = is_planned(platform.framework) and not facts(platform.framework).runs_here
    if not given or not known or not accounting.holds(case.resolved.experiment, case.placement.world_size):
        return
    if any(refusals(case)):  # which are said first, and leave nothing to plan
        return
    made, count = planner(platform.framework), case.placement.nodes
    head = platform.network.head or next(iter(case.hosts), "localhost" if count == 1 else "node0")
    nodes = [Node(rank, count, head, platform.network.port, ".") for rank in {0, count - 1}]
    told = [made.variables(case, node) for node in nodes]
    for name, value in given.items():
        if name not in told[0]:
            continue
        own = dict.fromkeys(one[name] for one in told)
        if list(own) != [value]:
            stated = case.reading.env.get(name)
            yield RULE.at(
                case.reading,
                stated.path if stated else ("platforms", case.resolved.platform_name or "", "env", name),
                message=f"{name} is {value}, and the plan sets {' and '.join(own)}",
                fix="remove it: the experiment and the node decide",
                value=value,
                expected=" and ".join(own),
            )
