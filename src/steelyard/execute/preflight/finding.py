"""A finding about one host: observed and expected value, and how to fix it."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from steelyard.reasons import Code, Reason
from steelyard.verdict.finding import Finding, Scalar, Status, spelt, together

SAME_ON_HOSTS = Code(
    "same_on_hosts",
    lambda subject, observed, count, hosts, **_: (
        f"{subject}: {observed}{f', same as on {count:,} of {hosts:,} hosts' if hosts > 1 else ''}"
    ),
)
"""The host has the value that most hosts have."""
DIFFERENT_ON_HOST = Code("different_on_host", "{subject}: {observed}, but {expected} on {count:,} of {hosts:,} hosts")
"""The host has another value than most hosts."""
UNKNOWN_ON_HOST = Code("unknown_on_host", "{subject}: unknown ({missing})")
"""The host does not report the value that is compared between hosts."""


@dataclass(frozen=True, slots=True)
class HostFinding(Finding):
    """The result of one check on one host."""

    host: str | None = None
    """None: this machine, which queries the hosts."""
    fix: str | None = None
    """What to do; None if there is nothing to do."""

    @property
    def blocks(self) -> bool:
        """Whether a run should not start: required, and not passed."""
        return self.required and self.status != Status.PASS

    def document(self) -> dict[str, Any]:
        """As `preflight --json` prints it."""
        return {**Finding.document(self), "host": self.host, "fix": self.fix}


Findings = Iterator[HostFinding]
"""The result of a check."""


@dataclass(frozen=True, slots=True)
class Check:
    """The name of a check and whether a run needs it; makes its findings, as in `verdict.finding`."""

    name: str
    required: bool = False

    def passed(
        self, code: Code, host: str | None, observed: Scalar = None, expected: Scalar = None, **values: Any
    ) -> HostFinding:
        return self._finding(Status.PASS, code, host, None, {"observed": observed, "expected": expected, **values})

    def failed(
        self, code: Code, host: str | None, fix: str, observed: Scalar = None, expected: Scalar = None, **values: Any
    ) -> HostFinding:
        return self._finding(Status.FAIL, code, host, fix, {"observed": observed, "expected": expected, **values})

    def unknown(
        self, code: Code, host: str | None, fix: str, observed: Scalar = None, expected: Scalar = None, **values: Any
    ) -> HostFinding:
        return self._finding(Status.UNKNOWN, code, host, fix, {"observed": observed, "expected": expected, **values})

    def compared(self, values: Mapping[str, str | None], subject: str, missing: str, fix: str) -> Findings:
        """Compare each host's value with the most common one; on a tie, with the first of these."""
        known = [value for value in values.values() if value is not None]
        usual, count = Counter(known).most_common(1)[0] if known else (None, 0)
        hosts = len(values)
        for host, value in values.items():
            if value is None:
                yield self.unknown(UNKNOWN_ON_HOST, host, fix, None, usual, subject=subject, missing=missing)
            elif value == usual:
                yield self.passed(SAME_ON_HOSTS, host, value, usual, subject=subject, count=count, hosts=hosts)
            else:
                yield self.failed(DIFFERENT_ON_HOST, host, fix, value, usual, subject=subject, count=count, hosts=hosts)

    def _finding(
        self, status: Status, code: Code, host: str | None, fix: str | None, values: Mapping[str, Any]
    ) -> HostFinding:
        observed, expected = spelt(values["observed"]), spelt(values["expected"])
        reason = Reason(code, values)
        return HostFinding(self.name, reason, status, self.required, observed, expected, host=host, fix=fix)


def verdict_of(findings: Sequence[HostFinding]) -> Status:
    """Computed like the verdict of a run; unknown without any finding."""
    return together(findings) if findings else Status.UNKNOWN
