"""Errors, and the exit status of each kind."""

from collections.abc import Sequence
from enum import IntEnum
from math import isfinite
from typing import Any


class Exit(IntEnum):
    """Exit statuses; users rely on them."""

    GOOD = 0
    """The verdict is pass, the requested comparison holds, or lint found no error."""
    FAILED = 1
    """A finding failed: out of memory, divergence, a threshold, or a crash of the training program."""
    INPUT = 2
    """The input is wrong: usage, config, lint error, not a run."""
    INFRASTRUCTURE = 3
    """A node, container, transport, watchdog or time limit failed."""
    NOT_COMPARABLE = 4
    """A requested comparison is not comparable."""
    UNKNOWN = 5
    """The verdict is unknown, or the comparison is inconclusive."""
    INTERRUPTED = 130
    """Interrupted, after clean-up."""


class SteelyardError(Exception):
    """An error that a user can act on: what is wrong, where, what is expected, and the next command."""

    exit = Exit.INFRASTRUCTURE
    options = ""
    """The options of the verb that select a part of its file, to be appended to a suggested command."""

    def __init__(
        self,
        message: str,
        *,
        key: str | None = None,
        value: Any = None,
        expected: str | None = None,
        next: str | None = None,
        near: Sequence[str] = (),
    ) -> None:
        """`near` are existing names, one of which the user may have meant."""
        super().__init__(message)
        self.message, self.key, self.value, self.expected, self.next = message, key, value, expected, next
        self.near = near

    def __str__(self) -> str:
        return self.with_way_on(self.message)

    def with_way_on(self, sentence: str) -> str:
        """The sentence with the nearest names, or else with the expected value and the next command."""
        if self.near:
            return f"{sentence}. Did you mean {' or '.join(map(repr, self.near))}?"
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
    """The input is wrong."""

    exit = Exit.INPUT


class NotInstalledError(InputError):
    """An optional package or program is missing."""


class InterruptedByUser(SteelyardError):  # noqa: N818 - not an error
    """The user interrupted the command."""

    exit = Exit.INTERRUPTED


class InfrastructureError(SteelyardError):
    """A machine, container, connection or disk failed."""

    exit = Exit.INFRASTRUCTURE
