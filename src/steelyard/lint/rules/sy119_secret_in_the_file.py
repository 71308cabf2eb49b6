"""A secret stands in the file, as a variable's value.

Why: files are copied, committed and attached to tickets, and a plan prints every variable.
Fix: take it out. The Hugging Face token is read from `hf_token_file` and passed by name alone.
"""

import re
from collections.abc import Iterator, Mapping

from steelyard.experiment import Problem
from steelyard.experiment.cvs.values import left_open
from steelyard.experiment.reading import PointerPath
from steelyard.lint.rule import Case, Rule

RULE = Rule("SY119", "error")

_NAMED = re.compile(r"(TOKEN|SECRET|PASSWORD|PASSWD|API_?KEY|ACCESS_?KEY|CREDENTIALS?)$", re.IGNORECASE)
_FLAG = re.compile(r"(true|false|\d+)?", re.IGNORECASE)


def check(case: Case) -> Iterator[Problem]:
    platform, name = case.resolved.platform, case.resolved.platform_name or ""
    inner: Mapping[str, str] = platform.container.env if platform.container else {}
    for variable, value in case.env:
        if _NAMED.search(variable) and not _FLAG.fullmatch(value):
            yield RULE.at(
                case.reading,
                (),
                message=f"{variable} has its value in the cluster file",
                fix="take it out; for Hugging Face name its file under hf_token_file",
                expected="no secret",
            )
    for variables, place in ((platform.env, ("env",)), (inner, ("container", "env"))):
        for variable, value in variables.items():
            if _NAMED.search(variable) and not _FLAG.fullmatch(value) and not left_open(value):
                stated = case.reading.env.get(variable)
                path: PointerPath = stated.path if stated else ("platforms", name, *place, variable)
                yield RULE.at(
                    case.reading,
                    path,
                    message=f"{variable} has its value in the file",
                    fix="take it out; for Hugging Face name its file under hf_token_file",
                    expected="no secret",
                )
