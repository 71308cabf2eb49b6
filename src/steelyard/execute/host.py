"""A machine of the cluster: commands on it, what they print as it comes, and files. Local and ssh look alike."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from steelyard.errors import InfrastructureError

COMMAND_S = 60.0
"""How long a command that only asks or arranges something may take."""
ANSWER_BYTES = 16 << 20
"""The most such a command may print; what a job prints is followed instead."""
_READ = 1 << 16


@dataclass(frozen=True, slots=True)
class Done:
    """A command that ended."""

    status: int
    """Its exit status; negative is the signal that ended it."""
    out: bytes
    err: bytes

    @property
    def text(self) -> str:
        """What it printed, as text without the last newline."""
        return self.out.decode("utf-8", "replace").rstrip("\n")

    @property
    def reason(self) -> str:
        """The last thing it complained of, for a sentence."""
        said = (self.err or self.out).decode("utf-8", "replace").strip().splitlines()
        return said[-1].strip()[:300] if said else f"status {self.status}"


class Host(Protocol):
    """One machine, reached by a way that is kept open."""

    name: str
    """As the cluster file calls it."""

    async def run(self, argv: Sequence[str], stdin: bytes = b"", timeout_s: float = COMMAND_S) -> Done:
        """Run a command to its end; LinkLostError where the way there broke, HostTimeoutError where it took longer."""

    def follow(self, argv: Sequence[str], stdin: bytes = b"") -> AsyncIterator[bytes]:
        """What a command prints, as it comes, until it ends; LinkLostError where the way there broke."""

    async def pour(self, source: Path, argv: Sequence[str], timeout_s: float) -> Done:
        """Run a command that reads a file of ours, of any size, as its input."""

    async def write(self, path: str, content: bytes, mode: int = 0o600) -> None:
        """Make or replace a file in a directory that is there."""

    async def read(self, path: str) -> bytes:
        """A whole file; InfrastructureError where it cannot be read."""

    def typed(self, argv: Sequence[str]) -> str:
        """What a person types to run a command there."""

    async def close(self) -> None:
        """Let go of the host."""


class HostError(InfrastructureError):
    """Something about one host: `host` names it, and `complaint` says it without that name."""

    def __init__(self, host: str, complaint: str, **given: object) -> None:
        super().__init__(f"{host}: {complaint}", **given)  # type: ignore[arg-type]
        self.host, self.complaint = host, complaint


class LinkLostError(HostError):
    """The way to a host broke, or could not be made; trying again may help."""


class HostRefusedError(HostError):
    """A host that will not let us in, or is not the one it should be; trying again does not help."""


class HostTimeoutError(HostError):
    """A command on a host took longer than it may."""


class Readable(Protocol):
    """Bytes that come from a command."""

    async def read(self, n: int) -> bytes: ...


async def gathered(stream: Readable, host: str, program: str) -> bytes:
    """All that a command prints, as it comes; no host can fill our memory with it."""
    parts, size = [], 0
    while data := await stream.read(_READ):
        size += len(data)
        if size > ANSWER_BYTES:
            raise HostRefusedError(
                host,
                f"{program} printed more than {ANSWER_BYTES >> 20} MiB",
                expected="a short answer",
                next=f"run {program} on {host} by hand to see why it does not stop",
            )
        parts.append(data)
    return b"".join(parts)
