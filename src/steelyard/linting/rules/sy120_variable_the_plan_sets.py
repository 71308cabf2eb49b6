"""A variable that the plan sets itself, to another value.

Why: only one of the two values can win. The file and the job then disagree on batch, sizes or addresses.
Fix: remove it, and change the key that decides it.
"""

from steelyard import accounting
from steelyard.frameworks.planner import Node, refusals
from steelyard.frameworks.registry import facts, is_planned, planner
from steelyard.linting.rule import Case, Problems, Rule, environment

RULE = Rule("SY120", "error", may_be_allowed=False)


def check(case: Case) -> Problems:
    platform, given = case.resolved.platform, environment(case)
    known = is_planned(platform.framework) and not facts(platform.framework).runs_here
    if not given or not known or not accounting.holds(case.resolved.experiment, case.placement.world_size):
        return
    if any(refusals(case)):  # SY107 reports them, and there is nothing to plan
        return
    plan, count = planner(platform.framework), case.placement.nodes
    head = platform.network.head or next(iter(case.hosts), "localhost" if count == 1 else "node0")
    nodes = [Node(rank, count, head, platform.network.port, ".") for rank in {0, count - 1}]
    planned = [plan.variables(case, node) for node in nodes]
    for name, stated in given.items():
        own = dict.fromkeys(variables[name] for variables in planned if name in planned[0])
        if own and list(own) != [stated.value]:
            message = f"{name} is {stated.value}, but the plan sets {' and '.join(own)}"
            fix = "remove it: the experiment and the node decide it"
            yield RULE.at(case.reading, stated, message, fix, " and ".join(own))
