"""What a lint rule is given and what it gives back."""

from dataclasses import dataclass
from typing import Any

from steelyard.experiment import Resolved
from steelyard.experiment.problems import Problem, Severity
from steelyard.hardware.placement import Placement


@dataclass(frozen=True, slots=True)
class Case:
    """One experiment on one platform."""

    resolved: Resolved
    placement: Placement


@dataclass(frozen=True, slots=True)
class Rule:
    """A code and how bad it is; the module's docstring is its explanation."""

    code: str
    severity: Severity

    def problem(
        self, case: Case, key: str, message: str, fix: str, value: Any = None, expected: str | None = None
    ) -> Problem:
        return Problem(self.code, self.severity, str(case.resolved.file), key, message, fix, value, expected)
