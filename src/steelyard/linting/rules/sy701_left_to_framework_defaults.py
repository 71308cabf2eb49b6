"""A parameter is left to the frameworks of two platforms, and their defaults differ.

Why: "not set" does not mean "the same". The difference shows in the results, but not in the table of settings.
Fix: set it for both platforms.
"""

from steelyard.experiment.sources import DEFAULT
from steelyard.frameworks.registry import facts, is_planned
from steelyard.linting.rule import Case, Problems, Rule, Stated

RULE = Rule("SY701", "warning", on="file")


def check(cases: list[Case]) -> Problems:
    known = [case for case in cases if is_planned(case.resolved.platform.framework)]
    sides = {case.resolved.platform.framework: case for case in known}
    if len(sides) < 2 or any(case.reading.family != "steelyard" for case in cases):
        return
    for dotted in known[0].resolved.sources:
        values = {name: _value(case, dotted) for name, case in sides.items()}
        defaulted = [name for name, case in sides.items() if case.resolved.sources.get(dotted) == DEFAULT]
        left = [name for name in defaulted if values[name] is None]
        values_used = {}
        for name in sides if left else ():
            framework = facts(name)
            if framework.spelling(dotted) is None:
                continue  # it has no such setting
            if name not in left:
                values_used[name] = values[name]
            elif dotted in framework.silent_defaults:
                values_used[name] = framework.silent_defaults[dotted]
        if len(set(map(str, values_used.values()))) > 1:
            verbs = {name: "defaults" if name in left else "is set" for name in values_used}
            clauses = (f"{name} {verbs[name]} to {_shown(value)}" for name, value in values_used.items())
            message = f"{dotted} is not set for {' and '.join(left)}: {', '.join(clauses)}"
            place = Stated(None, tuple(dotted.split(".")))
            yield RULE.at(known[0].reading, place, message, f"set {dotted} for every platform")


def _value(case: Case, dotted: str) -> object:
    here: object = case.resolved.experiment
    for part in dotted.split("."):
        here = getattr(here, part, None)
    return here


def _shown(value: object) -> str:
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
