"""The container is privileged.

Why: training needs its GPUs, network cards and locked memory, and the plan grants each of them. A privileged
container can also end other jobs and change the host.
Fix: remove `privileged`.
"""

from steelyard.linting.rule import Case, Problems, Rule, Stated

RULE = Rule("SY117", "warning")


def check(case: Case) -> Problems:
    container, name = case.resolved.platform.container, case.resolved.platform_name
    if container is not None and container.privileged:
        stated = Stated(True, ("platforms", name or "", "container", "privileged"))
        fix = "remove privileged: the plan grants devices, groups and limits one by one"
        yield RULE.at(case.reading, stated, "the container is privileged", fix, "false")
