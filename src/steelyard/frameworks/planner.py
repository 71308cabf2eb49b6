"""What the planner of a framework answers for: how it is launched, and what it cannot do."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from steelyard import accounting
from steelyard.experiment.case import Case


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
class Node:
    """One machine of a job as a framework sees it."""

    rank: int
    nodes: int
    head: str
    """Address of the first machine, where ranks meet."""
    port: int | None
    """None for the framework's own."""
    run_dir: str
    """Where the planned files lie when the command starts: `.`, or where the container sees them."""


@dataclass(frozen=True, slots=True)
class Command:
    """What one node executes."""

    argv: Sequence[str]
    env: Mapping[str, str]
    """Added to the node's own environment."""
    files: Mapping[str, Any]
    """Files to write first, by path below the run directory; content is text, or a value written as JSON."""
    workdir: str | None = None
    """Directory of the image the command starts in; None for the run directory."""


class Planner(Protocol):
    def state_bytes(self, case: Case) -> accounting.StateBytes:
        """What it keeps per parameter."""
        ...

    def decides(self, case: Case) -> Mapping[str, Any]:
        """What it does, by dotted key, whatever is asked, having no knob for it."""
        ...

    def refusals(self, case: Case) -> Iterator[Refusal]:
        """What the experiment asks that this framework cannot do as asked."""
        ...

    def variables(self, case: Case, node: Node) -> dict[str, str]:
        """What it is told through the environment of one node."""
        ...

    def command(self, case: Case, node: Node) -> Command:
        """The exact command of one node."""
        ...
