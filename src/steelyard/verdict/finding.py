"""A finding: the result of one check, with evidence."""

import math
from collections.abc import Iterable, Iterator, Sequence
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
    """From best to worst: one failed finding fails the verdict, one unknown finding makes it unknown."""

    PASS = "pass"
    UNKNOWN = "unknown"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Result:
    """A code with its values, made by a check."""

    check: str
    reason: Reason

    @property
    def code(self) -> Code:
        return self.reason.code

    @property
    def message(self) -> str:
        return self.reason.message


Results = Iterator[Result]


class NotApplicable(Result):
    """Why a check does not apply to a run."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Finding(Result):
    status: Status
    required: bool
    """Whether an unknown finding makes the verdict unknown."""
    observed: Scalar = None
    expected: Scalar = None
    evidence: Evidence | None = None

    def document(self) -> dict[str, Any]:
        """An entry of `findings` in JSON."""
        head = {"check": self.check, "code": self.code.name, "status": self.status.value, "required": self.required}
        values = {"observed": self.observed, "expected": self.expected, "message": self.message}
        return {**head, **values, "evidence": msgspec.to_builtins(self.evidence)}


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    required: bool = False

    def finding(
        self,
        status: Status,
        code: Code,
        observed: Scalar = None,
        expected: Scalar = None,
        evidence: Evidence | None = None,
        **values: Any,
    ) -> Finding:
        """Make a finding. Its message uses `values`, `observed` and `expected`."""
        reason = Reason(code, {"observed": observed, "expected": expected, **values})
        return Finding(self.name, reason, status, self.required, spelt(observed), spelt(expected), evidence)

    def passed(self, code: Code, *given: Any, **values: Any) -> Finding:
        return self.finding(Status.PASS, code, *given, **values)

    def failed(self, code: Code, *given: Any, **values: Any) -> Finding:
        return self.finding(Status.FAIL, code, *given, **values)

    def unknown(self, code: Code, *given: Any, **values: Any) -> Finding:
        return self.finding(Status.UNKNOWN, code, *given, **values)

    def judged(self, holds: bool, codes: tuple[Code, Code], *given: Any, **values: Any) -> Finding:
        """Pass or fail; `codes` are the code of a pass and the code of a failure."""
        return self.passed(codes[0], *given, **values) if holds else self.failed(codes[1], *given, **values)

    def contradicted(self, contradictions: Sequence[Event], status: Status = Status.FAIL) -> Finding:
        """The log contains other values than the plan; the message contains both."""
        first = contradictions[0]
        logged, planned = (_setting(first, name) for name in ("said", "planned"))
        return self.finding(status, LOG_CONTRADICTS_PLAN, logged, planned, first.source, events=tuple(contradictions))

    def not_applicable(self, code: Code, **values: Any) -> NotApplicable:
        return NotApplicable(self.name, Reason(code, values))


class Weighed(Protocol):
    @property
    def status(self) -> Status: ...
    @property
    def required(self) -> bool: ...


def together(findings: Iterable[Weighed]) -> Status:
    """The worst status. Unknown findings count only if they are required."""
    return worst(finding.status for finding in findings if finding.required or finding.status != Status.UNKNOWN)


def worst(statuses: Iterable[Status]) -> Status:
    return max(statuses, key=[*Status].index, default=Status.PASS)


def _setting(event: Event, name: str) -> Scalar:
    """The value of a setting; a list or a flag as text."""
    value = event.details.get(name)
    return event.scalar(name) if isinstance(value, float | int | str | None) else str(value)


def spelt(value: Scalar) -> Scalar:
    """A value that JSON can represent: a non-finite number becomes its name."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value
