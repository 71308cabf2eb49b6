"""A finding: one judged statement with its evidence."""

from dataclasses import dataclass
from enum import StrEnum

from steelyard.records import Evidence

Scalar = float | int | str | None


class Status(StrEnum):
    PASS = "pass"
    FAIL = "fail"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Finding:
    """One judged statement."""

    check: str
    status: Status
    required: bool
    """Whether the verdict is unknown when this is."""
    message: str
    """What was found, as a sentence a person can act on."""
    observed: Scalar = None
    expected: Scalar = None
    evidence: Evidence | None = None


@dataclass(frozen=True, slots=True)
class NotApplicable:
    """Why a check has nothing to say of a run."""

    check: str
    reason: str


@dataclass(frozen=True, slots=True)
class Check:
    """The name of a check, whether the verdict needs it, and how its findings are made."""

    name: str
    required: bool = False

    def passed(
        self, message: str, observed: Scalar = None, expected: Scalar = None, evidence: Evidence | None = None
    ) -> Finding:
        return Finding(self.name, Status.PASS, self.required, message, observed, expected, evidence)

    def failed(
        self, message: str, observed: Scalar = None, expected: Scalar = None, evidence: Evidence | None = None
    ) -> Finding:
        return Finding(self.name, Status.FAIL, self.required, message, observed, expected, evidence)

    def unknown(
        self, message: str, observed: Scalar = None, expected: Scalar = None, evidence: Evidence | None = None
    ) -> Finding:
        return Finding(self.name, Status.UNKNOWN, self.required, message, observed, expected, evidence)

    def judged(
        self,
        holds: bool,
        message: str,
        observed: Scalar = None,
        expected: Scalar = None,
        evidence: Evidence | None = None,
    ) -> Finding:
        make = self.passed if holds else self.failed
        return make(message, observed, expected, evidence)

    def not_applicable(self, reason: str) -> NotApplicable:
        return NotApplicable(self.name, reason)


Found = Finding | NotApplicable
