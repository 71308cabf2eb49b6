"""A finding: one judged statement with its evidence."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

import msgspec

from steelyard.reasons import Code, Reason
from steelyard.records import Event, Evidence

LOG_CONTRADICTS_PLAN = Code("log_contradicts_plan", lambda events, **_: "; ".join(event.message for event in events))
"""The log reports a value for a setting that differs from the value in the plan."""

Scalar = float | int | str | None


class Status(StrEnum):
    PASS = "pass"
    FAIL = "fail"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Finding:
    """One judged statement."""

    check: str
    reason: Reason
    """What was found: a code with its values."""
    status: Status
    required: bool
    """Whether the verdict is unknown when this is."""
    observed: Scalar = None
    expected: Scalar = None
    evidence: Evidence | None = None

    @property
    def code(self) -> Code:
        return self.reason.code

    @property
    def message(self) -> str:
        """What was found, as a sentence a person can act on."""
        return self.reason.message

    def document(self) -> dict[str, Any]:
        """An entry of `findings` in JSON."""
        return {
            "check": self.check,
            "code": self.code.name,
            "status": self.status.value,
            "required": self.required,
            "observed": self.observed,
            "expected": self.expected,
            "message": self.message,
            "evidence": msgspec.to_builtins(self.evidence),
        }


@dataclass(frozen=True, slots=True)
class NotApplicable:
    """Why a check has nothing to say of a run."""

    check: str
    reason: Reason

    @property
    def code(self) -> Code:
        return self.reason.code

    @property
    def message(self) -> str:
        return self.reason.message


@dataclass(frozen=True, slots=True)
class Check:
    """The name of a check, whether the verdict needs it, and how its findings are made.

    A sentence is made from the values that are named, from `observed` and from `expected`.
    """

    name: str
    required: bool = False

    def passed(
        self,
        code: Code,
        observed: Scalar = None,
        expected: Scalar = None,
        evidence: Evidence | None = None,
        **values: Any,
    ) -> Finding:
        return self._finding(Status.PASS, code, observed, expected, evidence, values)

    def failed(
        self,
        code: Code,
        observed: Scalar = None,
        expected: Scalar = None,
        evidence: Evidence | None = None,
        **values: Any,
    ) -> Finding:
        return self._finding(Status.FAIL, code, observed, expected, evidence, values)

    def unknown(
        self,
        code: Code,
        observed: Scalar = None,
        expected: Scalar = None,
        evidence: Evidence | None = None,
        **values: Any,
    ) -> Finding:
        return self._finding(Status.UNKNOWN, code, observed, expected, evidence, values)

    def judged(
        self,
        holds: bool,
        codes: tuple[Code, Code],
        observed: Scalar = None,
        expected: Scalar = None,
        evidence: Evidence | None = None,
        **values: Any,
    ) -> Finding:
        """By whether it holds; `codes` are those of a pass and of a failure."""
        status, code = (Status.PASS, codes[0]) if holds else (Status.FAIL, codes[1])
        return self._finding(status, code, observed, expected, evidence, values)

    def contradicted(self, denied: Sequence[Event], status: Status = Status.FAIL) -> Finding:
        """What the plan stated and the log says otherwise, both values named."""
        first = denied[0]
        logged, planned = (_setting(first, name) for name in ("said", "planned"))
        return self._finding(status, LOG_CONTRADICTS_PLAN, logged, planned, first.source, {"events": tuple(denied)})

    def _finding(
        self,
        status: Status,
        code: Code,
        observed: Scalar,
        expected: Scalar,
        evidence: Evidence | None,
        values: Mapping[str, Any],
    ) -> Finding:
        reason = Reason(code, {"observed": observed, "expected": expected, **values})
        return Finding(self.name, reason, status, self.required, spelt(observed), spelt(expected), evidence)

    def not_applicable(self, code: Code, **values: Any) -> NotApplicable:
        return NotApplicable(self.name, Reason(code, values))


Result = Finding | NotApplicable
"""What a check yields."""


class Weighed(Protocol):
    """What adds to a verdict."""

    @property
    def status(self) -> Status: ...
    @property
    def required(self) -> bool: ...


def together(findings: Sequence[Weighed]) -> Status:
    """Fails if a finding failed, else is unknown if a required one is, else passes."""
    if any(finding.status == Status.FAIL for finding in findings):
        return Status.FAIL
    if any(finding.status == Status.UNKNOWN and finding.required for finding in findings):
        return Status.UNKNOWN
    return Status.PASS


def _setting(event: Event, name: str) -> Scalar:
    """A setting as a log or a plan has it, a list or a flag as text."""
    value = event.details.get(name)
    return event.scalar(name) if isinstance(value, float | int | str | None) else str(value)


def spelt(value: Scalar) -> Scalar:
    """A value as JSON can carry it: what is not finite becomes its name."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value
