"""The experiment asks for something that its framework cannot do.

Why: the framework would do something else, and the run would be another experiment under the same name.
Fix: choose a value that the framework supports, or another framework.
"""

from steelyard.frameworks.planner import refusals
from steelyard.frameworks.registry import every_facts, facts, is_planned
from steelyard.linting.rule import Case, Problems, Rule

RULE = Rule("SY107", "error", may_be_allowed=False)


def check(case: Case) -> Problems:
    name, script = case.resolved.platform.framework, case.resolved.platform.script
    if script is not None and not facts(name).has_launch_script and not facts(name).runs_here:
        able = " and ".join(each.name for each in every_facts() if each.has_launch_script)
        message = f"platform.script is {script}, but only {able} can be launched by a script"
        yield RULE.problem(case, "platform.script", message, "remove platform.script", script, "null")
    if is_planned(name):
        for refusal in refusals(case):
            yield RULE.problem(case, refusal.key, refusal.message, refusal.fix, refusal.value, refusal.expected)
