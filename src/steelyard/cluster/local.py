"""This machine: a process group of its own, tied to ours by a pipe it holds as standard input."""

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

import psutil

from steelyard.errors import InfrastructureError

_READ = 1 << 16
_DRAIN_S = 2.0
"""How long output may still come after the process has ended: a grandchild may hold the pipe open for ever."""


class LocalProcess:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def output(self) -> AsyncIterator[bytes]:
        assert self._process.stdout is not None
        ended = asyncio.ensure_future(self._process.wait())
        try:
            while True:
                reading = asyncio.ensure_future(self._process.stdout.read(_READ))
                await asyncio.wait({reading, ended}, return_when=asyncio.FIRST_COMPLETED)
                if not reading.done():
                    await asyncio.wait({reading}, timeout=_DRAIN_S)
                if not reading.done():
                    reading.cancel()
                    return
                if not (data := reading.result()):
                    return
                yield data
        finally:
            ended.cancel()

    async def wait(self) -> int:
        return await self._process.wait()

    async def stop(self, grace_s: float) -> None:
        family = self._family()
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGTERM)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), grace_s)
        family |= self._family()
        for member in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                member.kill()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()
        await asyncio.to_thread(psutil.wait_procs, list(family), timeout=5)

    def _family(self) -> set[psutil.Process]:
        """The command and all below it; torchrun gives each worker a session of its own."""
        try:
            command = psutil.Process(self._process.pid)
            return {command, *command.children(recursive=True)}
        except psutil.NoSuchProcess:
            return set()


class Local:
    name = "local"

    async def start(self, argv: Sequence[str], env: Mapping[str, str], directory: Path) -> LocalProcess:
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                cwd=directory,
                env={**os.environ, **env},
                stdin=subprocess.PIPE,  # never written to; it closes when we are gone, and the trainer watches it
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as reason:
            raise InfrastructureError(
                f"{argv[0]} cannot be started ({reason.strerror})", key="argv", value=argv[0], expected="a program"
            ) from None
        return LocalProcess(process)


TRANSPORT = Local()
