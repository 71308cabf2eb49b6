"""A machine of the cluster, and this machine as one: commands on it, what they print as it comes, and files."""

import asyncio
import contextlib
import os
import shlex
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from steelyard.errors import InfrastructureError
from steelyard.files import read_document

COMMAND_S = 60.0
"""How long a command that only asks or arranges something may take."""
ANSWER_BYTES = 16 << 20
"""The most such a command may print; what a job prints is followed instead."""
CHUNK = 1 << 16
"""Bytes that are read at once."""
_KILLED_S = 2.0
"""How long a killed process may take to go."""


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
        lines = (self.err or self.out).decode("utf-8", "replace").strip().splitlines()
        return lines[-1].strip()[:300] if lines else f"status {self.status}"


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


async def gathered(read: Callable[[int], Awaitable[bytes]], host: str, program: str) -> bytes:
    """All that a command prints, as it comes; no host can fill our memory with it."""
    parts, size = [], 0
    while data := await read(CHUNK):
        size += len(data)
        if size > ANSWER_BYTES:
            message = f"{program} printed more than {ANSWER_BYTES >> 20} MiB"
            fix = f"run {program} on {host} by hand to see why it does not stop"
            raise HostRefusedError(host, message, expected="a short answer", next=fix)
        parts.append(data)
    return b"".join(parts)


class ThisHost:
    """This machine, which needs no link."""

    def __init__(self, name: str = "localhost") -> None:
        self.name = name

    async def run(self, argv: Sequence[str], stdin: bytes = b"", timeout_s: float = COMMAND_S) -> Done:
        return await self._run(argv, PIPE, stdin, timeout_s)

    async def pour(self, source: Path, argv: Sequence[str], timeout_s: float) -> Done:
        with source.open("rb") as file:
            return await self._run(argv, file, None, timeout_s)

    async def _run(self, argv: Sequence[str], source: int | IO[bytes], stdin: bytes | None, timeout_s: float) -> Done:
        try:
            process = await self._start(argv, PIPE, source)
        except HostRefusedError as reason:
            return Done(127, b"", str(reason).encode())  # as the shell of a far host has it
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            async with asyncio.timeout(timeout_s):
                out, err, _ = await asyncio.gather(
                    gathered(process.stdout.read, self.name, argv[0]),
                    gathered(process.stderr.read, self.name, argv[0]),
                    _give(process, stdin) if stdin is not None else process.wait(),
                )
                status = await process.wait()
        except TimeoutError:
            raise HostTimeoutError(self.name, f"{argv[0]} took longer than {timeout_s:g} s") from None
        finally:
            await _end(process)
        return Done(status, out, err)

    async def follow(self, argv: Sequence[str], stdin: bytes = b"") -> AsyncIterator[bytes]:
        process = await self._start(argv, STDOUT)
        assert process.stdout is not None
        try:
            await _give(process, stdin)
            while data := await process.stdout.read(CHUNK):
                yield data
            await process.wait()
        finally:
            await _end(process)

    async def write(self, path: str, content: bytes, mode: int = 0o600) -> None:
        new = Path(f"{path}.new.{os.getpid()}")
        try:
            descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
            new.chmod(mode)
            new.replace(path)
        except OSError as reason:
            new.unlink(missing_ok=True)
            raise HostRefusedError(self.name, f"{path} cannot be written ({reason.strerror})") from None

    async def read(self, path: str) -> bytes:
        try:
            return read_document(Path(path), most_bytes=ANSWER_BYTES)
        except OSError as reason:
            raise HostRefusedError(self.name, f"{path} cannot be read ({reason.strerror})") from None

    def typed(self, argv: Sequence[str]) -> str:
        return shlex.join(argv)

    async def close(self) -> None:
        return

    async def _start(self, argv: Sequence[str], err: int, source: int | IO[bytes] = PIPE) -> Process:
        """In a session of its own: a Ctrl-C is ours to handle."""
        try:
            return await asyncio.create_subprocess_exec(
                *argv, stdin=source, stdout=PIPE, stderr=err, start_new_session=True
            )
        except OSError as reason:
            message = f"{argv[0]} cannot be started ({reason.strerror})"
            raise HostRefusedError(self.name, message, value=argv[0], expected="a program") from None


async def _give(process: Process, stdin: bytes) -> None:
    """Write all of its input, as far as it reads it."""
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.write(stdin)
        await process.stdin.drain()
    process.stdin.close()


async def _end(process: Process) -> None:
    """End it and let go of its pipes, which a grandchild may still hold open."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_KILLED_S):  # asyncio complains of one that outlives its loop
                await process.wait()
    transport = process._transport  # type: ignore[attr-defined]  # the only way to what asyncio keeps open
    transport.close()
