"""What can go wrong, with the exit status each kind ends in."""

from enum import IntEnum
from math import isfinite
from typing import Any


class Exit(IntEnum):
    """The process exit statuses users may rely on."""

    GOOD = 0
    """The verdict passed, the asked comparison holds, no lint error."""
    FAILED = 1
    """Judged and failed: a finding failed, out of memory, divergence, or the training program crashed."""
    INPUT = 2
    """The input is wrong: usage, config, lint error, not a run."""
    INFRASTRUCTURE = 3
    """A node, container, transport, watchdog or time limit failed."""
    NOT_COMPARABLE = 4
    """An asked comparison is not comparable."""
    UNKNOWN = 5
    """Not known: the verdict is unknown, or the comparison inconclusive."""
    INTERRUPTED = 130
    """Interrupted, after clean-up."""


class SteelyardError(Exception):
    """An error a person can act on: what is wrong, where, what was expected, and what to type next."""

    exit = Exit.INFRASTRUCTURE

    def __init__(
        self,
        message: str,
        *,
        key: str | None = None,
        value: Any = None,
        expected: str | None = None,
        next: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message, self.key, self.value, self.expected, self.next = message, key, value, expected, next

    def __str__(self) -> str:
        return self.with_way_on(self.message)

    def with_way_on(self, sentence: str) -> str:
        """A sentence of it, with what was expected and what to type next."""
        if self.expected:
            sentence += f", expected {self.expected}"
        if self.next:
            sentence += f"; next: {self.next}"
        return sentence

    def document(self) -> dict[str, Any]:
        """The `error` object of `--json`."""
        value = str(self.value) if isinstance(self.value, float) and not isfinite(self.value) else self.value
        return {"message": str(self), "key": self.key, "value": value, "expected": self.expected, "next": self.next}


class InputError(SteelyardError):
    """The user's input is wrong."""

    exit = Exit.INPUT


class InterruptedByUser(SteelyardError):  # noqa: N818 - it is no error
    """The user asked us to stop."""

    exit = Exit.INTERRUPTED


class InfrastructureError(SteelyardError):
    """What the run needs of the machine is not there."""

    exit = Exit.INFRASTRUCTURE
