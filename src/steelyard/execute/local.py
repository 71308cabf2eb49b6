"""Executes a plan on this machine, as a process group that a pipe ties to ours."""

import asyncio
import contextlib
import importlib.util
import os
import signal
import subprocess
import uuid
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from steelyard.errors import InfrastructureError, InputError
from steelyard.execute.executor import Link, Phase, RunFailedError, RunOptions, content_of
from steelyard.execute.interrupts import Stop
from steelyard.execute.recording import NodeRecording, Recording
from steelyard.execute.telemetry import LocalTelemetry
from steelyard.experiment.case import Placement
from steelyard.frameworks.registry import facts
from steelyard.hardware.catalog import lookup
from steelyard.hardware.machine import Machine
from steelyard.planning.make import Planned
from steelyard.planning.plan import NodePlan, Plan
from steelyard.records import Failure

STOP_GRACE_S = 10.0
_LIMIT_OPTIONS = "--time-limit, --first-step-within, --stall-after and --exit-within say how long it may take"

LABEL = "STEELYARD_PROCESS"
"""Marks what we started, so that we end that and nothing else."""
_READ = 1 << 16
_DRAIN_S = 2.0
"""How long output may still come after the process has ended: a grandchild may hold the pipe open for ever."""


class LocalProcess:
    """A started command."""

    def __init__(self, process: asyncio.subprocess.Process, label: str) -> None:
        self._process, self._label = process, label
        self._reading: asyncio.Future[bytes] | None = None
        """Kept where whoever reads is cancelled, so that the next who does misses nothing."""

    @property
    def exit_status(self) -> int | None:
        """None while it runs; negative is the signal that ended it."""
        return self._process.returncode

    async def output(self) -> AsyncIterator[bytes]:
        """What it prints, standard output and error together, as it comes, until it ends."""
        assert self._process.stdout is not None
        drained = asyncio.ensure_future(self._ended_and_drained())
        try:
            while not drained.done():
                self._reading = self._reading or asyncio.ensure_future(self._process.stdout.read(_READ))
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

    async def _ended_and_drained(self) -> None:
        await self._process.wait()
        await asyncio.sleep(_DRAIN_S)

    async def wait(self) -> int:
        """Its exit status, once it has ended."""
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
        family = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get(LABEL) == self._label:
                    family.append(process)
        return family


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


class LocalExecutor:
    """Runs plans without a container where Steelyard itself runs."""

    def takes(self, plan: Plan) -> bool:
        return plan.nodes[0].directory is None

    def check(self, planned: Planned, machine: Machine, options: RunOptions) -> None:
        plan, placement = planned.plan, planned.case.placement
        if options.cluster is not None:
            raise InputError(
                f"{plan.framework} without a container runs where Steelyard does",
                key="--cluster",
                value=str(options.cluster),
                expected="a platform with a container",
                next="give the platform `container: {image: …}` with steelyard[train] in it",
            )
        needed = facts(plan.framework).runs_here
        if needed is not None and importlib.util.find_spec(needed[0]) is None:
            raise InfrastructureError(
                f"{plan.framework} cannot be launched here: {needed[0]} is not installed",
                key="framework",
                value=plan.framework,
                next=needed[1],
            )
        _check_gpus(placement, machine)

    def new_job_id(self, plan: Plan) -> str | None:
        return None

    def job(self, planned: Planned, recording: Recording, options: RunOptions) -> "LocalJob":
        return LocalJob(planned, recording)


EXECUTOR = LocalExecutor()


def _check_gpus(placement: Placement, machine: Machine) -> None:
    if placement.device == "cpu":
        return
    if placement.gpu is not None and placement.gpu.vendor == "amd" and machine.unasked_amd_gpus:
        return
    names = machine.gpu_names
    kinds = {lookup(name) for name in names}
    if len(names) < placement.gpus_per_node or (placement.gpu is not None and kinds != {placement.gpu}):
        there = f"{len(names)} x {names[0]}" if names else "no GPU"
        raise InfrastructureError(
            f"the platform is {placement.gpus_per_node} x {placement.gpu_name} and this machine has {there}",
            key="gpu",
            value=placement.gpu_name,
            expected="the platform's GPUs on this machine",
            next="--gpu cpu, or run it where they are",
        )


class LocalNode:
    """The training program on this machine."""

    def __init__(self, plan: NodePlan, device: str) -> None:
        self.plan, self._device = plan, device
        self.log: NodeRecording | None = None
        self.link: Link | None = None
        self.ended_at: float | None = None
        self.process: LocalProcess | None = None
        self._is_over = False

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.ended_at is None

    async def follow(self, offset: int) -> AsyncIterator[bytes]:
        """A pipe gives each byte once: `offset` is where it stands."""
        assert self.process is not None, "it is started first"
        if self._is_over:
            return
        async for data in self.process.output():
            yield data

    async def status(self) -> int | None:
        assert self.process is not None, "it is started first"
        status = await self.process.wait()
        self._is_over = True
        return status

    async def reach(self) -> None:
        return

    def telemetry(self) -> LocalTelemetry:
        return LocalTelemetry(self._device)


class LocalJob:
    """One run on this machine."""

    def __init__(self, planned: Planned, recording: Recording) -> None:
        self._recording = recording
        self._node = LocalNode(planned.plan.nodes[0], planned.case.placement.device)
        self.nodes = (self._node,)
        self._starting: asyncio.Future[LocalProcess] | None = None

    @property
    def exit_status(self) -> int | None:
        return self._node.process.exit_status if self._node.process else None

    def phases(self) -> list[Phase]:
        return [Phase("start", None, self._start)]

    async def _start(self) -> None:
        plan, directory = self._node.plan, self._recording.writer.directory
        _write_files(directory, plan)
        self._starting = asyncio.ensure_future(start(plan.argv, plan.env, directory))
        try:
            self._node.process = await asyncio.shield(self._starting)  # one that is begun is never lost sight of
        except InfrastructureError as reason:
            raise RunFailedError(Failure(kind="start", message=str(reason)), error=reason) from None
        self._node.log = self._recording.of_node(plan)

    def guards(self) -> list[Coroutine[None, None, None]]:
        return []

    async def explain(self, overdue: Failure) -> RunFailedError:
        return RunFailedError(overdue, next=_LIMIT_OPTIONS)

    def failure(self) -> RunFailedError | None:
        last, planned, status = self._recording.last_step, self._recording.planned_steps, self.exit_status
        assert status is not None, "it has ended"
        if status == 0 and last >= planned:
            return None
        return RunFailedError(
            self._recording.named_failure() or _ended_early(status, last, planned),
            is_training=True,
        )

    def stopping(self, phase: str) -> str:
        return f"waiting up to {STOP_GRACE_S:g} s for the training program; Ctrl-C again kills it"

    async def clean_up(self, stop: Stop, interrupted: bool) -> None:
        if self._starting is None:
            return
        try:
            process = self._node.process = await self._starting
        except InfrastructureError:
            return  # it was never started, as the record says already
        try:
            if self._node.ended_at is None:
                reading = asyncio.ensure_future(self._record_the_rest(process))
                await _end(process, stop)
                await reading
        finally:
            await process.stop(0.0)

    async def _record_the_rest(self, process: LocalProcess) -> None:
        log = self._node.log = self._node.log or self._recording.of_node(self._node.plan)
        async for data in process.output():
            log.feed(data)
        log.end()


async def _end(process: LocalProcess, stop: Stop) -> None:
    """Ask it to end, and make it after a while, or at once where a second signal asks for that."""
    ending, at_once = asyncio.ensure_future(process.stop(STOP_GRACE_S)), asyncio.ensure_future(stop.at_once.wait())
    try:
        await asyncio.wait({ending, at_once}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        at_once.cancel()
        if not ending.done():
            ending.cancel()
            await process.stop(0.0)


def _write_files(directory: Path, node: NodePlan) -> None:
    for file in node.files:
        path = directory / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content_of(file), encoding="utf-8")


def _ended_early(exit_status: int, last_step: int, planned: int) -> Failure:
    """Why a training program is taken to have failed whose log names no cause."""
    if exit_status < 0:
        known = {number.value: number.name for number in signal.Signals}
        name = known.get(-exit_status, f"signal {-exit_status}")
        return Failure(kind="signal", message=f"the training program was ended by {name}")
    message = f"the training program ended with status {exit_status} after step {last_step} of {planned}"
    return Failure(kind="exit", message=message)
