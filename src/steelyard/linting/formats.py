"""Problems for programs: SARIF 2.1.0, and the annotations of a GitHub workflow."""

from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from steelyard import __version__
from steelyard.experiment import Problem
from steelyard.linting.explain import explanations

_LEVELS = {"error": "error", "warning": "warning", "info": "note"}
_SUPPRESSED = {"config": "inSource", "--allow": "external"}
_COMMANDS = {"error": "error", "warning": "warning", "info": "notice"}


def sentence(problem: Problem) -> str:
    """What is wrong and what is expected."""
    return f"{problem.message}{f', expected {problem.expected}' if problem.expected else ''}"


def sarif(problems: Iterable[Problem]) -> dict[str, Any]:
    """The problems as one SARIF document, with the rules that fired."""
    reported = list(problems)
    fired = {problem.code for problem in reported}
    rules = [rule for code, rule in explanations().items() if code in fired]
    index = {rule.code: at for at, rule in enumerate(rules)}
    described = [
        {
            "id": rule.code,
            "shortDescription": {"text": rule.meaning},
            "help": {"text": f"Why: {rule.why}\nFix: {rule.fix}"},
            "defaultConfiguration": {"level": _LEVELS[rule.severity]},
        }
        for rule in rules
    ]
    run = {
        "tool": {"driver": {"name": "steelyard", "version": __version__, "rules": described}},
        "results": [_result(problem, index[problem.code]) for problem in reported],
    }
    return {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}


def _result(problem: Problem, index: int) -> dict[str, Any]:
    place = {"artifactLocation": {"uri": quote(problem.file)}, "region": {"startLine": problem.line or 1}}
    logical = [{"fullyQualifiedName": problem.pointer}]
    return {
        "ruleId": problem.code,
        "ruleIndex": index,
        "level": _LEVELS[problem.severity],
        **({"suppressions": [{"kind": _SUPPRESSED[problem.allowed_by]}]} if problem.allowed_by else {}),
        "message": {"text": f"{sentence(problem)}\nFix: {problem.fix}"},
        "locations": [{"physicalLocation": place, "logicalLocations": logical}],
    }


def github(problem: Problem) -> str:
    """The problem as a workflow command, which annotates the line in a pull request."""
    place = f"file={_property(problem.file)},line={problem.line or 1},title={_property(problem.code)}"
    command = _COMMANDS["info" if problem.allowed else problem.severity]
    return f"::{command} {place}::{_data(f'{sentence(problem)}; fix: {problem.fix}')}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
