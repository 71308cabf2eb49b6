"""A finding about one host: what was seen there, what was expected, and what to do about it."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from steelyard.verdict.finding import Scalar, Status, spelt, together


@dataclass(frozen=True, slots=True)
class HostFinding:
    """One judged statement about one host."""

    check: str
    status: Status
    required: bool
    message: str
    """What was found, as a sentence a person can act on."""
    observed: Scalar = None
    expected: Scalar = None
    evidence: None = None
    """As in the findings of a run; a host has no line to point to."""
    host: str | None = None
    """None where it is about the machine that asks."""
    fix: str | None = None
    """What to do; None where nothing is to be done."""

    @property
    def blocks(self) -> bool:
        """Whether a run should not start: required, and not known to hold."""
        return self.required and self.status != Status.PASS

    def document(self) -> dict[str, Any]:
        """As `preflight --json` prints it."""
        made: dict[str, Any] = msgspec.to_builtins(self)
        return made


@dataclass(frozen=True, slots=True)
class Check:
    """The name of a check, whether a run needs it, and how its findings are made."""

    name: str
    required: bool = False

    def passed(self, host: str | None, message: str, observed: Scalar = None, expected: Scalar = None) -> HostFinding:
        return self._finding(Status.PASS, host, message, observed, expected, None)

    def failed(
        self, host: str | None, message: str, fix: str, observed: Scalar = None, expected: Scalar = None
    ) -> HostFinding:
        return self._finding(Status.FAIL, host, message, observed, expected, fix)

    def unknown(
        self, host: str | None, message: str, fix: str, observed: Scalar = None, expected: Scalar = None
    ) -> HostFinding:
        return self._finding(Status.UNKNOWN, host, message, observed, expected, fix)

    def compared(self, values: Mapping[str, str | None], what: str, missing: str, fix: str) -> Iterator[HostFinding]:
        """Hold each host's value against what most of them have; on a tie, against the first of them."""
        known = [value for value in values.values() if value is not None]
        usual, count = Counter(known).most_common(1)[0] if known else ("", 0)
        for host, value in values.items():
            if value is None:
                yield self.unknown(host, f"{what} is not known: {missing}", fix, None, usual or None)
            elif value == usual:
                alike = f", as on {count:,} of {len(values):,} hosts" if len(values) > 1 else ""
                yield self.passed(host, f"{what} is {value}{alike}", value, usual)
            else:
                message = f"{what} is {value}, and {usual} on {count:,} of {len(values):,} hosts"
                yield self.failed(host, message, fix, value, usual)

    def _finding(
        self, status: Status, host: str | None, message: str, observed: Scalar, expected: Scalar, fix: str | None
    ) -> HostFinding:
        return HostFinding(
            self.name, status, self.required, message, spelt(observed), spelt(expected), host=host, fix=fix
        )


def verdict_of(findings: Sequence[HostFinding]) -> Status:
    """As of a run; unknown where nothing was found at all."""
    return together(findings) if findings else Status.UNKNOWN
