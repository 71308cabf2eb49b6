"""The experiment asks what its framework does not do.

Why: run otherwise than asked, it would be another experiment under the same name.
Fix: ask for what the framework does, or choose another framework.
"""

from steelyard.frameworks.planner import refusals
from steelyard.frameworks.registry import every_facts, facts, is_planned
from steelyard.linting.rule import Case, Problems, Rule

RULE = Rule("SY107", "error")


def check(case: Case) -> Problems:
    name, script = case.resolved.platform.framework, case.resolved.platform.script
    if script is not None and not facts(name).has_launch_script and not facts(name).runs_here:
        able = " and ".join(each.name for each in every_facts() if each.has_launch_script)
        message = f"platform.script is {script}, and only {able} is launched by a script"
        yield RULE.problem(case, "platform.script", message, "remove it", script, "none")
    if is_planned(name):
        for refusal in refusals(case):
            yield RULE.problem(case, refusal.key, refusal.message, refusal.fix, refusal.value, refusal.expected)
