"""This machine: a process group of its own, tied to ours by a pipe it holds as standard input."""

import asyncio
import contextlib
import os
import signal
import subprocess
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

import psutil

from steelyard.errors import InfrastructureError

LABEL = "STEELYARD_PROCESS"
"""Marks what we started, so that we end that and nothing else."""
_READ = 1 << 16
_DRAIN_S = 2.0
"""How long output may still come after the process has ended: a grandchild may hold the pipe open for ever."""


class LocalProcess:
    """A started command."""

    def __init__(self, process: asyncio.subprocess.Process, label: str) -> None:
        self._process, self._label = process, label

    async def output(self) -> AsyncIterator[bytes]:
        """What it prints, standard output and error together, as it comes, until it ends."""
        assert self._process.stdout is not None
        drained = asyncio.ensure_future(self._ended_and_drained())
        try:
            while True:
                reading = asyncio.ensure_future(self._process.stdout.read(_READ))
                await asyncio.wait({reading, drained}, return_when=asyncio.FIRST_COMPLETED)
                if not reading.done():
                    reading.cancel()
                    return
                if not (data := reading.result()):
                    return
                yield data
                if drained.done():
                    return
        finally:
            drained.cancel()

    async def _ended_and_drained(self) -> None:
        await self._process.wait()
        await asyncio.sleep(_DRAIN_S)

    async def wait(self) -> int:
        """Its exit status; negative is the signal that ended it."""
        return await self._process.wait()

    async def stop(self, grace_s: float) -> None:
        """End it and all it started: asked first, then after `grace_s` made to. Returns when nothing is left."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGTERM)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), grace_s)
        left = await asyncio.to_thread(self._family)
        for member in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                member.kill()
        await self._process.wait()
        await asyncio.to_thread(psutil.wait_procs, left, timeout=5)

    def _family(self) -> list[psutil.Process]:
        """The command and all it started, by the label in their environment: torchrun gives each worker a session of
        its own, and a worker whose torchrun died has another parent."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get(LABEL) == self._label:
                    found.append(process)
        return found


async def start(argv: Sequence[str], env: Mapping[str, str], directory: Path) -> LocalProcess:
    """Start a command in `directory`, with `env` added to this machine's environment."""
    label = uuid.uuid4().hex
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            cwd=directory,
            env={**os.environ, **env, LABEL: label},
            stdin=subprocess.PIPE,  # never written to; it closes when we are gone, and the trainer watches it
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as reason:
        raise InfrastructureError(
            f"{argv[0]} cannot be started ({reason.strerror})", key="argv", value=argv[0], expected="a program"
        ) from None
    return LocalProcess(process, label)
