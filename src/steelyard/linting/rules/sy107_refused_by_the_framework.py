"""The experiment asks what its framework does not do.

Why: run otherwise than asked, it would be another experiment under the same name.
Fix: ask for what the framework does, or choose another framework.
"""

from collections.abc import Iterator

from steelyard.experiment import Problem
from steelyard.experiment.case import Case
from steelyard.linting.rule import Rule

RULE = Rule("SY107", "error")


def check(case: Case) -> Iterator[Problem]:
    from steelyard import frameworks  # here, since frameworks are given cases too

    name = case.resolved.platform.framework
    if case.resolved.platform.script is not None and name not in ("megatron", "native"):
        script = case.resolved.platform.script
        message = f"platform.script is {script}, and only megatron is launched by a script"
        yield RULE.problem(case, "platform.script", message, "remove it", script, "none")
    if name in frameworks.MODULES:
        for refusal in frameworks.refusals(case):
            yield RULE.problem(case, refusal.key, refusal.message, refusal.fix, refusal.value, refusal.expected)
