"""A variable that the plan sets itself, to another value.

Why: of two values one wins, and the file and the job then disagree about batch, sizes or addresses.
Fix: remove it, and change the key that decides it.
"""

from collections.abc import Iterator

from steelyard import accounting
from steelyard.experiment import Problem
from steelyard.lint.rule import Case, Rule

RULE = Rule("SY120", "error")


def check(case: Case) -> Iterator[Problem]:
    from steelyard import frameworks  # here, since frameworks are given cases too

    platform = case.resolved.platform
    given = {**(platform.container.env if platform.container else {}), **platform.env}
    known = platform.framework in frameworks.MODULES
    if not given or not known or not accounting.holds(case.resolved.experiment, case.placement.world_size):
        return
    made = frameworks.framework(platform.framework)
    if any(made.refusals(case)):  # which are said first, and leave nothing to plan
        return
    own = made.command(case, frameworks.Node(0, case.placement.nodes, "localhost", None, ".")).env
    for name, value in given.items():
        if name in own and own[name] != value:
            stated = case.reading.env.get(name)
            yield RULE.at(
                case.reading,
                stated.path if stated else ("platforms", case.resolved.platform_name or "", "env", name),
                message=f"{name} is {value}, and the plan sets {own[name]}",
                fix="remove it: the experiment decides",
                value=value,
                expected=own[name],
            )
