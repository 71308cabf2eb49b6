"""A parameter that the two sides leave to their frameworks, which do different things.

Why: `-` and absent are not "the same": one framework's default is another's opposite, and the difference shows in the
figures and not in the table.
Fix: state it on both sides.
"""

from collections.abc import Iterator

from steelyard.experiment import Problem
from steelyard.experiment.case import Case
from steelyard.experiment.sources import DEFAULT
from steelyard.frameworks.registry import facts, is_planned
from steelyard.linting.rule import Rule

RULE = Rule("SY701", "warning", on="file")


def check(cases: list[Case]) -> Iterator[Problem]:
    known = [case for case in cases if is_planned(case.resolved.platform.framework)]
    sides = {case.resolved.platform.framework: case for case in known}
    if len(sides) < 2 or any(case.reading.family != "steelyard" for case in cases):
        return
    first = known[0]
    for dotted in first.resolved.sources:
        left = {name: case for name, case in sides.items() if _left_open(case, dotted)}
        if not left:
            continue
        does = {}
        for name, case in sides.items():
            framework = facts(name)
            if framework.spelling(dotted) is None:
                continue  # the key means nothing to it
            if name not in left:
                does[name] = _value(case, dotted)
            elif dotted in framework.silent_defaults:
                does[name] = framework.silent_defaults[dotted]
        if len(set(map(str, does.values()))) > 1 and len(does) > 1:
            words = ", ".join(
                f"{name} {'does' if name in left else 'is told'} {_shown(value)}" for name, value in does.items()
            )
            group, key = dotted.split(".", 1)
            yield RULE.at(
                first.reading,
                (group, *key.split(".")),
                message=f"{dotted} is left open where {' and '.join(left)} train: {words}",
                fix=f"state {dotted} for every platform",
            )


def _left_open(case: Case, dotted: str) -> bool:
    return case.resolved.sources.get(dotted) == DEFAULT and _value(case, dotted) is None


def _value(case: Case, dotted: str) -> object:
    here: object = case.resolved.experiment
    for part in dotted.split("."):
        here = getattr(here, part, None)
    return here


def _shown(value: object) -> str:
    return "nothing" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
