"""What a framework answers for: how it is launched, how its log is read, what it cannot do."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from steelyard.experiment import Parallelism
from steelyard.lint.rule import Case
from steelyard.records.step import Event, Step


@dataclass(frozen=True, slots=True)
class Refusal:
    """One thing an experiment asks that the framework does not do."""

    key: str
    value: Any
    message: str
    expected: str | None
    """None where the message says it."""
    fix: str


@dataclass(frozen=True, slots=True)
class Command:
    """What one node executes, in the run directory."""

    argv: Sequence[str]
    env: Mapping[str, str]
    """Added to the node's own environment."""
    files: Mapping[str, Any]
    """Files to write first, by path below the run directory; content is text, or a value written as JSON."""


class LogReader(Protocol):
    """Reads one node's log a line at a time, so that a file and a live run are read alike."""

    def feed(self, line: int, text: str) -> Iterator[Step | Event]:
        """What the 1-based `line` says, if anything; a step line that cannot be read is an `unread_line` event."""
        ...


class Framework(Protocol):
    name: str
    master_bytes: int
    """Bytes a parameter kept beside half-precision weights so that updates are exact in fp32."""

    flop_conventions: tuple[str, ...]
    """The formulas, of `accounting.CONVENTIONS`, that its TFLOP/s may follow."""

    log_interval: int | None
    """Steps between its step lines; None where a setting decides."""

    silent_defaults: Mapping[str, Any]
    """What it does, by dotted key, where the experiment says null."""

    def vocabulary_multiple(self, parallelism: Parallelism) -> int:
        """What the vocabulary is padded to a multiple of."""
        ...

    def refusals(self, case: Case) -> Iterator[Refusal]:
        """What the experiment asks that this framework cannot do as asked."""
        ...

    def missing_software(self) -> tuple[str, str] | None:
        """What is not installed on this machine and the command that installs it; None when nothing is missing."""
        ...

    def command(self, case: Case, node_rank: int) -> Command:
        """The exact command of one node."""
        ...

    def recognises(self, head: Sequence[str]) -> bool:
        """Whether the first lines of a log are this framework's."""
        ...

    def reader(self, log: str) -> LogReader:
        """A reader of one log file, named as evidence will name it."""
        ...
