"""Executes a plan on this machine and records what happens."""

import asyncio
import contextlib
import importlib.util
import json
import platform as system
import signal
import sys
from pathlib import Path

from steelyard import __version__, records
from steelyard.errors import InfrastructureError, SteelyardError
from steelyard.execute.interrupts import Stop, on_signals
from steelyard.execute.limits import Limits
from steelyard.execute.local import LocalProcess, start
from steelyard.execute.recording import Observer, Recording
from steelyard.execute.watch import EVERY_S, Watch
from steelyard.experiment.case import Case
from steelyard.experiment.placement import Placement
from steelyard.frameworks.registry import facts
from steelyard.hardware.catalog import lookup
from steelyard.hardware.machine import Machine
from steelyard.hardware.telemetry import Telemetry
from steelyard.planning.plan import NodePlan, Plan, platform_label
from steelyard.records import Failure, RunManifest, RunWriter

STOP_GRACE_S = 10.0
TELEMETRY_EVERY_S = 1.0


def check_machine(plan: Plan, placement: Placement, machine: Machine) -> None:
    """Refuse before anything is made what this machine cannot run."""
    needed = facts(plan.framework).runs_here
    if needed is not None and importlib.util.find_spec(needed[0]) is None:
        raise InfrastructureError(
            f"{plan.framework} cannot be launched here: {needed[0]} is not installed",
            key="framework",
            value=plan.framework,
            next=needed[1],
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


def new_run(
    plan: Plan, case: Case, out: Path, name: str | None, command: list[str], job: str | None = None
) -> RunWriter:
    """Make the run directory of a plan; `job` marks what it makes on hosts."""
    resolved, placement = case.resolved, case.placement
    label = platform_label(case)
    manifest = RunManifest(
        name=records.run_name(plan.experiment, label),
        framework=plan.framework,
        job=job,
        hosts=[node.host for node in plan.nodes] if job else [system.node()],
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


def execute(plan: Plan, case: Case, writer: RunWriter, observe: Observer, limits: Limits | None = None) -> RunManifest:
    """Run the plan to its end, whatever the end; the manifest says which it was."""
    try:
        return asyncio.run(_Supervision(plan, case, writer, observe, limits or Limits()).run())
    except OSError as reason:
        raise unrecordable(writer, reason) from None


def unrecordable(writer: RunWriter, reason: OSError) -> InfrastructureError:
    """End a run whose record cannot be written any more."""
    with contextlib.suppress(OSError):  # what cannot be written now reads as interrupted
        writer.finish("failed", None, Failure(kind="record", message=str(reason)))
    return InfrastructureError(
        f"{writer.directory}: the run could not be recorded further ({reason.strerror or reason})",
        key="--out",
        value=str(writer.directory),
        expected="a disk with room",
    )


class _Supervision:
    """One run from start to end."""

    def __init__(self, plan: Plan, case: Case, writer: RunWriter, observe: Observer, limits: Limits) -> None:
        self.plan, self.case, self.writer = plan, case, writer
        self.recording = Recording(plan, case, writer, observe)
        self.watch = Watch(limits, self.recording, plan.expected.seconds_at_peak)

    async def run(self) -> RunManifest:
        node = self.plan.nodes[0]
        with on_signals() as stop:
            try:
                _write_files(self.writer.directory, node)
                process = await start(node.argv, node.env, self.writer.directory)
            except SteelyardError as reason:
                self.writer.finish("failed", None, Failure(kind="start", message=str(reason)))
                raise
            sampling = asyncio.ensure_future(self._sample())
            ending = asyncio.ensure_future(self._follow(node, process))
            stopping = asyncio.ensure_future(stop.asked.wait())
            overdue = asyncio.ensure_future(self._overdue())
            try:
                await asyncio.wait({ending, stopping, overdue}, return_when=asyncio.FIRST_COMPLETED)
                ended = ending.done()
                if not ended:
                    self.recording.ending = True
                    await self._end_process(process, stop)
                exit_status = await ending
            finally:
                for task in (sampling, stopping, overdue, ending):
                    task.cancel()
                await process.stop(0.0)
            if not ended and not stop.asked.is_set():
                raise self._late(overdue.result(), exit_status)
            return self._end(not ended, exit_status)

    async def _end_process(self, process: LocalProcess, stop: Stop) -> None:
        """Ask it to end, and make it after a while, or at once where a second signal asks for that."""
        if stop.asked.is_set():
            self.recording.event(
                "stopping", f"waiting up to {STOP_GRACE_S:g} s for the training program; Ctrl-C again kills it"
            )
        ending, at_once = asyncio.ensure_future(process.stop(STOP_GRACE_S)), asyncio.ensure_future(stop.at_once.wait())
        try:
            await asyncio.wait({ending, at_once}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            at_once.cancel()
            if not ending.done():
                ending.cancel()
                await process.stop(0.0)

    async def _overdue(self) -> Failure:
        """Ends where the steps stop coming, or there is no time left for more."""
        while True:
            await asyncio.sleep(EVERY_S)
            if (late := self.watch.too_long()) is not None:
                return late
            if (words := self.watch.stalled()) is not None:
                return Failure(kind="stall", message=words, phase="train")

    def _late(self, failure: Failure, exit_status: int) -> InfrastructureError:
        self.writer.finish("failed", exit_status, failure)
        return InfrastructureError(
            f"{failure.message} (in {failure.phase})",
            key=failure.kind,
            next="--time-limit, --first-step-within, --stall-after and --exit-within say how long it may take",
        )

    async def _follow(self, node: NodePlan, process: LocalProcess) -> int:
        log = self.recording.of_node(node)
        async for data in process.output():
            log.feed(data)
            self.watch.heard()
        log.end()
        return await process.wait()

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
            self.recording.event("telemetry_lost", f"{type(reason).__name__}: {reason}", host)

    def _end(self, interrupted: bool, exit_status: int) -> RunManifest:
        recording, failure = self.recording, None
        if interrupted:
            recording.event("interrupted", f"stopped after step {recording.last_step}")
            self.writer.finish("interrupted", exit_status, None)
            return self.writer.manifest
        if exit_status != 0 or recording.last_step < recording.planned_steps:
            failure = recording.named_failure() or ended_early(
                exit_status, recording.last_step, recording.planned_steps
            )
        self.writer.finish("failed" if failure else "completed", exit_status, failure)
        return self.writer.manifest


def _write_files(directory: Path, node: NodePlan) -> None:
    for file in node.files:
        path = directory / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        text = file.content if isinstance(file.content, str) else json.dumps(file.content, indent=2) + "\n"
        path.write_text(text, encoding="utf-8")


def ended_early(exit_status: int, last_step: int, planned: int) -> Failure:
    """Why a training program is taken to have failed whose log names no cause."""
    if exit_status < 0:
        known = {number.value: number.name for number in signal.Signals}
        name = known.get(-exit_status, f"signal {-exit_status}")
        return Failure(kind="signal", message=f"the training program was ended by {name}")
    message = f"the training program ended with status {exit_status} after step {last_step} of {planned}"
    return Failure(kind="exit", message=message)
