"""The container may do anything to its host.

Why: training needs its GPUs, its network cards and locked memory, which are given one by one; a privileged container
can also end other jobs and change the host.
Fix: remove `privileged`.
"""

from collections.abc import Iterator

from steelyard.experiment import Problem
from steelyard.experiment.case import Case
from steelyard.linting.rule import Rule

RULE = Rule("SY117", "warning")


def check(case: Case) -> Iterator[Problem]:
    container, name = case.resolved.platform.container, case.resolved.platform_name
    if container is not None and container.privileged:
        yield RULE.at(
            case.reading,
            ("platforms", name or "", "container", "privileged"),
            message="the container is privileged",
            fix="remove privileged: devices, groups and limits are given one by one",
            value=True,
            expected="false",
        )
