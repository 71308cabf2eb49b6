"""How a command is started on a node, watched and ended."""

from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol


class Process(Protocol):
    """A started command."""

    def output(self) -> AsyncIterator[bytes]:
        """What it prints, standard output and error together, as it comes, until it ends."""
        ...

    async def wait(self) -> int:
        """Its exit status; negative is the signal that ended it."""
        ...

    async def stop(self, grace_s: float) -> None:
        """End it and all it started: asked first, then after `grace_s` made to. Returns when nothing is left."""
        ...


class Transport(Protocol):
    name: str

    async def start(self, argv: Sequence[str], env: Mapping[str, str], directory: Path) -> Process:
        """Start a command in `directory`, with `env` added to the node's environment."""
        ...
