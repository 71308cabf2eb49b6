"""A parameter that the two sides leave to their frameworks, which do different things.

Why: `-` and absent are not "the same": one framework's default is another's opposite, and the difference shows in the
figures and not in the table.
Fix: state it on both sides.
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
        does = {}
        for name in sides if left else ():
            framework = facts(name)
            if framework.spelling(dotted) is None:
                continue  # the key means nothing to it
            if name not in left:
                does[name] = values[name]
            elif dotted in framework.silent_defaults:
                does[name] = framework.silent_defaults[dotted]
        if len(set(map(str, does.values()))) > 1:
            verbs = {name: "does" if name in left else "is told" for name in does}
            clauses = (f"{name} {verbs[name]} {_shown(value)}" for name, value in does.items())
            message = f"{dotted} is left open where {' and '.join(left)} train: {', '.join(clauses)}"
            place = Stated(None, tuple(dotted.split(".")))
            yield RULE.at(known[0].reading, place, message, f"state {dotted} for every platform")


def _value(case: Case, dotted: str) -> object:
    here: object = case.resolved.experiment
    for part in dotted.split("."):
        here = getattr(here, part, None)
    return here


def _shown(value: object) -> str:
    return "nothing" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
