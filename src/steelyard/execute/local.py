"""Runs a plan on this machine, as a process group that ends when we end."""

import asyncio
import contextlib
import importlib.util
import os
import signal
import uuid
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil

from steelyard.errors import InfrastructureError, InputError
from steelyard.execute.executor import (
    JobNode,
    Phase,
    RunFailedError,
    RunOptions,
    Stop,
    content_of,
    longer_limit,
    unless,
)
from steelyard.execute.host import CHUNK
from steelyard.execute.recording import Recording
from steelyard.execute.telemetry import LocalTelemetry
from steelyard.experiment.case import Placement
from steelyard.frameworks.registry import facts
from steelyard.hardware.catalog import lookup
from steelyard.hardware.machine import Machine
from steelyard.planning.make import Planned
from steelyard.planning.plan import Plan
from steelyard.records import Failure

STOP_GRACE_S = 10.0

LABEL = "STEELYARD_PROCESS"
"""Marks the processes that we started, so that we kill only those."""
_DRAIN_S = 2.0
"""How long output may still come after the process has ended: a grandchild may keep the pipe open."""


def _check_gpus(placement: Placement, machine: Machine) -> None:
    if placement.device == "cpu":
        return
    if placement.gpu is not None and placement.gpu.vendor == "amd" and machine.unasked_amd_gpus:
        return
    names = machine.gpu_names
    kinds = {lookup(name) for name in names}
    if len(names) < placement.gpus_per_node or (placement.gpu is not None and kinds != {placement.gpu}):
        present = f"{len(names)} x {names[0]}" if names else "no GPU"
        message = f"the platform needs {placement.gpus_per_node} x {placement.gpu_name}, but this machine has {present}"
        fix = "--gpu cpu, or run it on a machine that has them"
        raise InfrastructureError(message, key="gpu", value=placement.gpu_name, next=fix)


async def _ended_and_drained(process: Process) -> None:
    await process.wait()
    await asyncio.sleep(_DRAIN_S)


class LocalJob(JobNode):
    """One run on this machine without a container: job and node at once."""

    def __init__(self, planned: Planned, recording: Recording, options: RunOptions) -> None:
        self._recording, self._device, self._label = recording, planned.case.placement.device, uuid.uuid4().hex
        self.plan, self.nodes = planned.plan.nodes[0], (self,)
        self.process: Process | None = None
        self._starting: asyncio.Future[None] | None = None
        self._reading: asyncio.Future[bytes] | None = None
        """Kept when a reader is cancelled, so that the next reader misses nothing."""
        self._is_over = False

    @staticmethod
    def takes(plan: Plan) -> bool:
        return plan.nodes[0].directory is None

    @staticmethod
    def check(planned: Planned, machine: Machine, options: RunOptions) -> None:
        framework = planned.plan.framework
        if options.cluster is not None:
            message = f"{framework} without a container runs only on this machine"
            expected, cluster = "a platform with a container", str(options.cluster)
            fix = "add `container: {image: …}` to the platform; the image needs steelyard[train]"
            raise InputError(message, key="--cluster", value=cluster, expected=expected, next=fix)
        needed = facts(framework).runs_here
        if needed is not None and importlib.util.find_spec(needed[0]) is None:
            message = f"{framework} cannot start: {needed[0]} is not installed"
            raise InfrastructureError(message, key="framework", value=framework, next=needed[1])
        _check_gpus(planned.case.placement, machine)

    @property
    def exit_status(self) -> int | None:
        """A negative value is the signal that ended it."""
        return self.process.returncode if self.process else None

    def phases(self) -> list[Phase]:
        return [Phase("start", None, self._start)]

    async def _start(self) -> None:
        directory = self._recording.writer.directory
        for file in self.plan.files:
            path = directory / file.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content_of(file), encoding="utf-8")
        self._starting = asyncio.ensure_future(self._start_in(directory))
        try:
            await asyncio.shield(self._starting)  # so that a process that is being started is always cleaned up
        except InfrastructureError as reason:
            raise RunFailedError(Failure(kind="start", message=str(reason)), shown=reason) from None
        self.log = self._recording.of_node(self.plan)

    def guards(self) -> tuple[()]:
        return ()

    async def explain(self, overdue: Failure) -> RunFailedError:
        return RunFailedError(overdue, next=longer_limit(overdue, self._recording.last_step))

    def failure(self) -> RunFailedError | None:
        last, planned, status = self._recording.last_step, self._recording.planned_steps, self.exit_status
        assert status is not None, "it has ended"
        if status == 0 and last >= planned:
            return None
        if status < 0:
            name = {number.value: number.name for number in signal.Signals}.get(-status, f"signal {-status}")
            message = f"the training program was killed by {name} after step {last} of {planned}"
            unnamed = Failure(kind="signal", message=message)
        else:
            message = f"the training program exited with status {status} after step {last} of {planned}"
            unnamed = Failure(kind="exit", message=message)
        return RunFailedError(self._recording.named_failure() or unnamed, is_training=True)

    def stopping(self, phase: str) -> str:
        return f"waiting up to {STOP_GRACE_S:g} s for the training program to exit; press Ctrl-C again to kill it"

    async def clean_up(self, stop: Stop, interrupted: bool) -> None:
        if self._starting is None:
            return
        try:
            await self._starting
        except InfrastructureError:
            return  # it was never started; the record has that error
        reading = asyncio.ensure_future(self._record_the_rest()) if self.ended_at is None else None
        try:
            if reading is not None:
                await unless(stop.at_once, self.stop(STOP_GRACE_S))
        finally:
            await self.stop(0.0)
        if reading is not None:
            await reading

    async def _record_the_rest(self) -> None:
        log = self.log = self.log or self._recording.of_node(self.plan)
        async for data in self.follow(log.bytes):
            log.feed(data)
        log.end()

    async def _start_in(self, directory: Path) -> None:
        """Start its command in `directory`, with its variables added to this machine's."""
        argv, env = self.plan.argv, {**os.environ, **self.plan.env, LABEL: self._label}
        try:
            # We write nothing to its standard input. It closes when we end, and the trainer watches for that.
            self.process = await asyncio.create_subprocess_exec(
                *argv, cwd=directory, env=env, stdin=PIPE, stdout=PIPE, stderr=STDOUT, start_new_session=True
            )
            self.started = True
        except OSError as reason:
            message = f"cannot start {argv[0]} ({reason.strerror})"
            raise InfrastructureError(message, key="argv", value=argv[0], expected="a program") from None

    async def follow(self, offset: int) -> AsyncIterator[bytes]:
        """Standard output and error together. `offset` is not needed: a pipe gives each byte once."""
        assert self.process is not None, "it is started first"
        assert self.process.stdout is not None
        if self._is_over:
            return
        drained = asyncio.ensure_future(_ended_and_drained(self.process))
        try:
            while not drained.done():
                self._reading = self._reading or asyncio.ensure_future(self.process.stdout.read(CHUNK))
                first: set[asyncio.Future[Any]] = {self._reading, drained}
                await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
                if not self._reading.done():
                    return
                data, self._reading = self._reading.result(), None
                if not data:
                    return
                yield data
        finally:
            drained.cancel()

    async def status(self) -> int | None:
        assert self.process is not None, "it is started first"
        status = await self.process.wait()
        self._is_over = True
        return status

    def telemetry(self) -> LocalTelemetry:
        return LocalTelemetry(self._device)

    async def stop(self, grace_s: float) -> None:
        """Stop it and all it started: SIGTERM, then SIGKILL after `grace_s`. Returns when nothing is left."""
        assert self.process is not None, "it is started first"
        if self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(signal.SIGTERM)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.process.wait(), grace_s)
        left = await asyncio.to_thread(self._family)
        for member in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                member.kill()
        await self.process.wait()
        await asyncio.to_thread(psutil.wait_procs, left, timeout=5)

    def _family(self) -> list[psutil.Process]:
        """The command and all it started, found by the label in their environment.

        torchrun gives each worker its own session, and a worker whose torchrun died has another parent.
        """
        family = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get(LABEL) == self._label:
                    family.append(process)
        return family


EXECUTOR = LocalJob
