"""A finding: one judged statement with its evidence."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from steelyard.records import Event, Evidence

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
        return self._finding(Status.PASS, message, observed, expected, evidence)

    def failed(
        self, message: str, observed: Scalar = None, expected: Scalar = None, evidence: Evidence | None = None
    ) -> Finding:
        return self._finding(Status.FAIL, message, observed, expected, evidence)

    def unknown(
        self, message: str, observed: Scalar = None, expected: Scalar = None, evidence: Evidence | None = None
    ) -> Finding:
        return self._finding(Status.UNKNOWN, message, observed, expected, evidence)

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

    def contradicted(self, denied: Sequence[Event], status: Status = Status.FAIL) -> Finding:
        """What the plan stated and the log says otherwise, both values named."""
        first = denied[0]
        said, planned = (_said(first, name) for name in ("said", "planned"))
        return self._finding(status, "; ".join(event.message for event in denied), said, planned, first.source)

    def _finding(
        self, status: Status, message: str, observed: Scalar, expected: Scalar, evidence: Evidence | None
    ) -> Finding:
        return Finding(self.name, status, self.required, message, spelt(observed), spelt(expected), evidence)

    def not_applicable(self, reason: str) -> NotApplicable:
        return NotApplicable(self.name, reason)


Found = Finding | NotApplicable


def together(findings: Sequence[Finding]) -> Status:
    """Fails if a finding failed, else is unknown if a required one is, else passes."""
    if any(finding.status == Status.FAIL for finding in findings):
        return Status.FAIL
    if any(finding.status == Status.UNKNOWN and finding.required for finding in findings):
        return Status.UNKNOWN
    return Status.PASS


def _said(event: Event, name: str) -> Scalar:
    """A setting as a log or a plan has it, a list or a flag as text."""
    found = event.details.get(name)
    return event.scalar(name) if isinstance(found, float | int | str | None) else str(found)


def spelt(value: Scalar) -> Scalar:
    """A value as JSON can carry it: what is not finite becomes its name."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value
