"""Which lint codes a user can allow, and which problems are allowed."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from steelyard.errors import InputError
from steelyard.experiment import Problem
from steelyard.experiment.problems import CONTRADICTED, DUPLICATE_KEY, Allower
from steelyard.linting.table import RULES, rule_module

READ_ANYWAY = (DUPLICATE_KEY, CONTRADICTED)
"""Codes found while a file is read that leave an experiment to run."""


def allowable() -> tuple[str, ...]:
    """The codes that can be allowed, in order."""
    rules = (module.RULE for module in map(rule_module, RULES))
    return tuple(sorted({*READ_ANYWAY, *(rule.code for rule in rules if rule.may_be_allowed)}))


def refused_codes(codes: Iterable[str]) -> list[str]:
    """The codes that do not exist, or that cannot be allowed."""
    known = allowable()
    return [code for code in codes if code not in known]


def check_allowed(codes: Iterable[str]) -> None:
    """Refuse --allow with a code that cannot be allowed."""
    if refused := refused_codes(listed := list(codes)):
        kept = [code for code in listed if code not in refused]
        raise InputError(
            f"--allow: {', '.join(refused)} cannot be allowed",
            key="--allow",
            value=",".join(refused),
            expected=f"codes of {', '.join(allowable())}",
            next=f"--allow {','.join(kept)}, and correct the rest" if kept else f"steelyard explain {refused[0]}",
        )


def marked(problems: Iterable[Problem], by_option: Iterable[str], by_config: Iterable[str] = ()) -> Iterator[Problem]:
    """The problems; those whose code is allowed are marked with who allows it."""
    allowers: dict[str, Allower] = {**dict.fromkeys(by_config, "config"), **dict.fromkeys(by_option, "--allow")}
    known = allowable()
    for problem in problems:
        allower = allowers.get(problem.code) if problem.code in known else None
        yield replace(problem, allowed_by=allower) if allower else problem
