"""The interface of a host (commands, their output, files), and this machine as a host."""

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
"""Time limit of a short command."""
ANSWER_BYTES = 16 << 20
"""Output limit of such a command; the output of a job is followed instead."""
CHUNK = 1 << 16
"""Bytes per read."""
_KILLED_S = 2.0
"""How long a killed process may take to end."""


@dataclass(frozen=True, slots=True)
class Done:
    """A command that ended."""

    status: int
    """Its exit status; negative is the signal that ended it."""
    out: bytes
    err: bytes

    @property
    def text(self) -> str:
        """Its output as text, without the last newline."""
        return self.out.decode("utf-8", "replace").rstrip("\n")

    @property
    def reason(self) -> str:
        """The last line of its errors or output, for a message."""
        lines = (self.err or self.out).decode("utf-8", "replace").strip().splitlines()
        return lines[-1].strip()[:300] if lines else f"status {self.status}"


class Host(Protocol):
    """One machine, with a connection that is kept open."""

    name: str
    """Its name in the cluster file."""

    async def run(self, argv: Sequence[str], stdin: bytes = b"", timeout_s: float = COMMAND_S) -> Done:
        """Run a command to its end; LinkLostError if the connection broke, HostTimeoutError if it took too long."""

    def follow(self, argv: Sequence[str], stdin: bytes = b"") -> AsyncIterator[bytes]:
        """The output of a command, as it is printed, until it ends; LinkLostError if the connection broke."""

    async def pour(self, source: Path, argv: Sequence[str], timeout_s: float) -> Done:
        """Run a command with a local file of any size as its input."""

    async def write(self, path: str, content: bytes, mode: int = 0o600) -> None:
        """Create or replace a file in an existing directory."""

    async def read(self, path: str) -> bytes:
        """A whole file; InfrastructureError if it cannot be read."""

    def typed(self, argv: Sequence[str]) -> str:
        """What a user types to run a command there."""

    async def close(self) -> None:
        """Close the connection."""


class HostError(InfrastructureError):
    """An error on one host. `host` is its name; `complaint` is the message without it."""

    def __init__(self, host: str, complaint: str, **given: object) -> None:
        super().__init__(f"{host}: {complaint}", **given)  # type: ignore[arg-type]
        self.host, self.complaint = host, complaint


class LinkLostError(HostError):
    """The connection to a host broke or could not be made; a retry may help."""


class HostRefusedError(HostError):
    """A host refused the login or a command; a retry does not help."""


class HostTimeoutError(HostError):
    """A command on a host took too long."""


async def gathered(read: Callable[[int], Awaitable[bytes]], host: str, program: str) -> bytes:
    """All output of a command, limited so that no host can fill our memory."""
    parts, size = [], 0
    while data := await read(CHUNK):
        size += len(data)
        if size > ANSWER_BYTES:
            message = f"{program} printed more than {ANSWER_BYTES >> 20} MiB"
            fix = f"run {program} on {host} by hand to see its output"
            raise HostRefusedError(host, message, next=fix)
        parts.append(data)
    return b"".join(parts)


class ThisHost:
    """This machine, without a connection."""

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
            return Done(127, b"", str(reason).encode())  # like the shell of a remote host
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
            raise HostRefusedError(self.name, f"cannot write {path} ({reason.strerror})") from None

    async def read(self, path: str) -> bytes:
        try:
            return read_document(Path(path), most_bytes=ANSWER_BYTES)
        except OSError as reason:
            raise HostRefusedError(self.name, f"cannot read {path} ({reason.strerror})") from None

    def typed(self, argv: Sequence[str]) -> str:
        return shlex.join(argv)

    async def close(self) -> None:
        return

    async def _start(self, argv: Sequence[str], err: int, source: int | IO[bytes] = PIPE) -> Process:
        """In its own session, so that Ctrl-C reaches only us."""
        try:
            return await asyncio.create_subprocess_exec(
                *argv, stdin=source, stdout=PIPE, stderr=err, start_new_session=True
            )
        except OSError as reason:
            message = f"cannot start {argv[0]} ({reason.strerror})"
            raise HostRefusedError(self.name, message, value=argv[0], expected="a program") from None


async def _give(process: Process, stdin: bytes) -> None:
    """Write its input; stop if it does not read."""
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.write(stdin)
        await process.stdin.drain()
    process.stdin.close()


async def _end(process: Process) -> None:
    """Kill it and close its pipes, which a grandchild may keep open."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_KILLED_S):  # asyncio warns about processes that outlive its loop
                await process.wait()
    transport = process._transport  # type: ignore[attr-defined]  # asyncio has no public way to close it
    transport.close()
