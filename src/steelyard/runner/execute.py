"""Executes a plan on this machine and records what happens."""

import asyncio
import contextlib
import json
import platform as system
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec.structs import replace

from steelyard import __version__, cluster, records
from steelyard.errors import InfrastructureError, SteelyardError
from steelyard.frameworks import launched
from steelyard.frameworks.logs.lines import LineCutter
from steelyard.frameworks.logs.reader import LogReader
from steelyard.frameworks.logs.series import Gathered
from steelyard.hardware.catalog import lookup
from steelyard.hardware.machine import Machine
from steelyard.hardware.placement import Placement
from steelyard.hardware.telemetry import Telemetry
from steelyard.lint import Case
from steelyard.records import Event, Failure, RunManifest, RunWriter, Step
from steelyard.records.step import FAILURES
from steelyard.runner.plan import NodePlan, Plan, platform_label

STOP_GRACE_S = 10.0
TELEMETRY_EVERY_S = 1.0

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Observer = Callable[[Step | Event], None]


def check_machine(plan: Plan, placement: Placement, machine: Machine) -> None:
    """Refuse before anything is made what this machine cannot run."""
    missing = launched(plan.framework).missing_software()
    if missing:
        what, install = missing
        raise InfrastructureError(
            f"{plan.framework} cannot be launched here: {what} is not installed",
            key="framework",
            value=plan.framework,
            next=install,
        )
    if placement.device == "cpu":
        return
    if placement.gpu is not None and placement.gpu.vendor == "amd" and machine.unasked_amd_gpus:
        return
    found = f"{len(machine.gpu_names)} x {machine.gpu_names[0]}" if machine.gpu_names else "no GPU"
    kinds = {lookup(name) for name in machine.gpu_names}
    if len(machine.gpu_names) < placement.gpus_per_node or (placement.gpu is not None and kinds != {placement.gpu}):
        raise _wrong_machine(placement, found)


def _wrong_machine(placement: Placement, found: str) -> InfrastructureError:
    return InfrastructureError(
        f"the platform is {placement.gpus_per_node} x {placement.gpu_name} and this machine has {found}",
        key="gpu",
        value=placement.gpu_name,
        expected="the platform's GPUs on this machine",
        next="--gpu cpu, or run it where they are",
    )


def new_run(plan: Plan, case: Case, out: Path, name: str | None, command: list[str]) -> RunWriter:
    """Make the run directory of a plan."""
    resolved, placement = case.resolved, case.placement
    label = platform_label(case)
    manifest = RunManifest(
        name=records.run_name(plan.experiment, label),
        framework=plan.framework,
        experiment=resolved.experiment.model_dump(mode="json"),
        sources=dict(resolved.sources),
        platform=records.RunPlatform(
            name=label,
            gpu=placement.gpu.name if placement.gpu else None,
            gpu_name=placement.gpu_name,
            nodes=placement.nodes,
            gpus_per_node=placement.gpus_per_node,
            world_size=placement.world_size,
            peak_tflops_per_gpu=plan.expected.peak_tflops_per_gpu,
        ),
        expected=plan.expected.model_dump(mode="json"),
        provenance=records.Provenance(
            steelyard=__version__,
            command=command,
            file=str(resolved.file),
            sha256=resolved.reading.sha256,
            host=system.node(),
            python=sys.version.split()[0],
            system=system.platform(),
            started=records.now(),
        ),
    )
    return records.create_run(out, manifest, plan.model_dump(mode="json"), name)


def execute(plan: Plan, case: Case, writer: RunWriter, observe: Observer) -> RunManifest:
    """Run the plan to its end, whatever the end; the manifest says which it was."""
    try:
        return asyncio.run(_Supervision(plan, case, writer, observe).run())
    except OSError as reason:
        with contextlib.suppress(OSError):  # what cannot be written now reads as interrupted
            writer.finish("failed", None, Failure(kind="record", message=str(reason)))
        raise InfrastructureError(
            f"{writer.directory}: the run could not be recorded further ({reason.strerror or reason})",
            key="--out",
            value=str(writer.directory),
            expected="a disk with room",
        ) from None


class _Supervision:
    """One run from start to end."""

    def __init__(self, plan: Plan, case: Case, writer: RunWriter, observe: Observer) -> None:
        self.plan, self.case, self.writer, self.observe = plan, case, writer, observe
        self.planned_steps = case.resolved.experiment.training.steps
        self.last_step = 0
        self.cause: Event | None = None  # the first failure the log names; the rest are its echoes
        self.nonfinite: set[str] = set()
        self.asked_to_stop = asyncio.Event()

    async def run(self) -> RunManifest:
        node = self.plan.nodes[0]
        with self._signals():
            try:
                _write_files(self.writer.directory, node)
                process = await cluster.transport("local").start(node.argv, node.env, self.writer.directory)
            except SteelyardError as reason:
                self.writer.finish("failed", None, Failure(kind="start", message=str(reason)))
                raise
            sampling = asyncio.ensure_future(self._sample())
            ending = asyncio.ensure_future(self._follow(node, process))
            stopping = asyncio.ensure_future(self.asked_to_stop.wait())
            try:
                await asyncio.wait({ending, stopping}, return_when=asyncio.FIRST_COMPLETED)
                interrupted = not ending.done()
                if interrupted:
                    await process.stop(STOP_GRACE_S)
                exit_status = await ending
            finally:
                for task in (sampling, stopping, ending):
                    task.cancel()
                await process.stop(0.0)
            return self._end(interrupted, exit_status)

    async def _follow(self, node: NodePlan, process: cluster.Process) -> int:
        await self._read(node, process)
        return await process.wait()

    async def _read(self, node: NodePlan, process: cluster.Process) -> None:
        log = f"node{node.rank}.log"
        said = Gathered()
        reader = LogReader(f"logs/{log}", said, self.plan.framework)
        cutter = LineCutter()

        def take(line: bytes, end: bytes) -> None:
            reader.feed([line])
            # The record before the log: no step that the log shows is missing from the record.
            for found in said.take():
                self._record(found, node)
            self.writer.append_log(log, reader.redacted.get(reader.line, line) + end)

        async for data in process.output():
            for line in cutter.feed(data):
                take(line, b"\n")
        for line in cutter.rest():
            take(line, b"")
        reader.end()
        for found in said.take():
            self._record(found, node)

    def _record(self, found: Step | Event, node: NodePlan) -> None:
        if isinstance(found, Step):
            step = replace(found, node=node.host).derived(
                self.case.placement.world_size, self.plan.expected.flops_per_token
            )
            self.writer.append_step(step)
            self.last_step = step.step
            self._note_nonfinite(step)
            self.observe(step)
            return
        if self.asked_to_stop.is_set() and found.kind in FAILURES:
            return  # the echo of our own signal
        event = replace(found, node=node.host, time=found.time or records.now())
        if event.kind in FAILURES and self.cause is None:
            self.cause = event
        if event.kind == "started":
            self.writer.note_software({str(key): str(value) for key, value in event.details.items()})
        self.writer.append_event(event)
        self.observe(event)

    def _note_nonfinite(self, step: Step) -> None:
        """An event where a value turns non-finite; the steps themselves show how long it stays so."""
        names = set(step.nonfinite())
        for name in sorted(names - self.nonfinite):
            message = f"{name} is {getattr(step, name)} at step {step.step}"
            event = Event(
                kind="nan", message=message, step=step.step, node=step.node, time=step.time, source=step.source
            )
            self.writer.append_event(event)
            self.observe(event)
        self.nonfinite = names

    async def _sample(self) -> None:
        """Telemetry is beside the run: where it fails, the run goes on and the record says so."""
        host = self.plan.nodes[0].host
        try:
            with contextlib.closing(Telemetry(self.case.placement.device)) as telemetry:
                while True:
                    for sample in telemetry.sample():
                        self.writer.append_telemetry({"time": records.now(), "node": host, **sample})
                    await asyncio.sleep(TELEMETRY_EVERY_S)
        except Exception as reason:  # noqa: BLE001 - a driver may raise anything
            self.writer.append_event(
                Event(
                    kind="telemetry_lost", message=f"{type(reason).__name__}: {reason}", node=host, time=records.now()
                )
            )

    def _end(self, interrupted: bool, exit_status: int) -> RunManifest:
        failure = None
        if interrupted:
            self.writer.append_event(
                Event(kind="interrupted", message=f"stopped after step {self.last_step}", time=records.now())
            )
            self.writer.finish("interrupted", exit_status, None)
            return self.writer.manifest
        if exit_status != 0 or self.last_step < self.planned_steps:
            failure = self._failure(exit_status)
        self.writer.finish("failed" if failure else "completed", exit_status, failure)
        return self.writer.manifest

    def _failure(self, exit_status: int) -> Failure:
        if self.cause is not None:
            at = self.cause.source
            return Failure(
                kind=self.cause.kind,
                message=self.cause.message,
                file=at.file if at else None,
                line=at.line if at else None,
            )
        if exit_status < 0:
            known = {number.value: number.name for number in signal.Signals}
            name = known.get(-exit_status, f"signal {-exit_status}")
            return Failure(kind="signal", message=f"the training program was ended by {name}")
        message = f"the training program ended with status {exit_status} after step {self.last_step}"
        return Failure(kind="exit", message=f"{message} of {self.planned_steps}")

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self.asked_to_stop.set)
        try:
            yield
        finally:
            for number in _SIGNALS:
                loop.remove_signal_handler(number)


def _write_files(directory: Path, node: NodePlan) -> None:
    for file in node.files:
        path = directory / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        text = file.content if isinstance(file.content, str) else json.dumps(file.content, indent=2) + "\n"
        path.write_text(text, encoding="utf-8")
