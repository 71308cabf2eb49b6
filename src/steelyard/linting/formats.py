"""Problems for programs: SARIF 2.1.0, and the annotations of a GitHub workflow."""

from collections.abc import Iterable
from typing import Any

from steelyard import __version__
from steelyard.experiment import Problem
from steelyard.linting.explain import explanations

_LEVELS = {"error": "error", "warning": "warning", "info": "note"}
_COMMANDS = {"error": "error", "warning": "warning", "info": "notice"}


def sentence(problem: Problem) -> str:
    """What is wrong and what was expected."""
    return f"{problem.message}{f', expected {problem.expected}' if problem.expected else ''}"


def sarif(problems: Iterable[Problem]) -> dict[str, Any]:
    """The problems as one SARIF document, with the rules that fired."""
    wanted = list(problems)
    fired = {problem.code for problem in wanted}
    rules = [found for code, found in explanations().items() if code in fired]
    index = {found.code: at for at, found in enumerate(rules)}
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "steelyard",
                        "version": __version__,
                        "rules": [
                            {
                                "id": found.code,
                                "shortDescription": {"text": found.what},
                                "help": {"text": f"Why: {found.why}\nFix: {found.fix}"},
                                "defaultConfiguration": {"level": _LEVELS[found.severity]},
                            }
                            for found in rules
                        ],
                    }
                },
                "results": [_result(problem, index[problem.code]) for problem in wanted],
            }
        ],
    }


def _result(problem: Problem, index: int) -> dict[str, Any]:
    return {
        "ruleId": problem.code,
        "ruleIndex": index,
        "level": _LEVELS[problem.severity],
        **({"suppressions": [{"kind": "inSource"}]} if problem.allowed else {}),
        "message": {"text": f"{sentence(problem)}\nFix: {problem.fix}"},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": _uri(problem.file)},
                    "region": {"startLine": problem.line or 1},
                },
                "logicalLocations": [{"fullyQualifiedName": problem.pointer}],
            }
        ],
    }


def _uri(path: str) -> str:
    from urllib.parse import quote

    return quote(path)


def github(problem: Problem) -> str:
    """The problem as a workflow command, which shows beside the line in a pull request."""
    place = f"file={_property(problem.file)},line={problem.line or 1},title={_property(problem.code)}"
    command = _COMMANDS["info" if problem.allowed else problem.severity]
    return f"::{command} {place}::{_data(f'{sentence(problem)}; fix: {problem.fix}')}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
