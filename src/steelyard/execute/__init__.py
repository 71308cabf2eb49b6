"""From a plan to processes to a record: runs a plan by the executor it is made for, into a run directory."""

import asyncio
import contextlib
import platform as system
import secrets
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

from steelyard import __version__, records
from steelyard.errors import InfrastructureError
from steelyard.execute.executor import ImageSource, Limits, RunOptions, Stop, executor_of
from steelyard.execute.recording import Observer
from steelyard.execute.supervisor import Supervisor
from steelyard.experiment.partial import PartialExperiment
from steelyard.hardware.machine import Machine
from steelyard.planning.make import Planned, platform_label
from steelyard.records import Failure, RunManifest, RunWriter

__all__ = ["ImageSource", "Limits", "RunOptions", "check", "execute", "execute_until", "new_run", "on_signals"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Ctrl-C, a kill and a closed terminal end a run in the same orderly way."""


def check(planned: Planned, machine: Machine, options: RunOptions | None = None) -> None:
    """Refuse what cannot be run so, before anything is made."""
    executor_of(planned.plan).check(planned, machine, options or RunOptions())


def new_run(planned: Planned, out: Path, name: str | None, command: list[str]) -> RunWriter:
    """Make the run directory of a plan."""
    plan, case = planned.plan, planned.case
    resolved, placement = case.resolved, case.placement
    # Marks what the run makes on a host, outside its directory; no other run has it, whoever starts it.
    job = f"{plan.experiment}-{secrets.token_hex(6)}" if plan.nodes[0].directory is not None else None
    label = platform_label(case)
    manifest = RunManifest(
        name=records.stamped(plan.experiment, label),
        framework=plan.framework,
        job=job,
        hosts=[node.host for node in plan.nodes] if job else [system.node()],
        experiment=PartialExperiment(resolved.experiment.model_dump(mode="json")),
        sources={key: str(source) for key, source in resolved.sources.items()},
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


@contextlib.contextmanager
def on_signals() -> Iterator[Stop]:
    """Inside the with, these signals only set the events: the first asks for an end, a second for one at once."""
    stop, loop = Stop(), asyncio.get_running_loop()

    def act() -> None:
        (stop.at_once if stop.asked.is_set() else stop.asked).set()

    for number in _SIGNALS:
        loop.add_signal_handler(number, act)
    try:
        yield stop
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)


def execute(planned: Planned, writer: RunWriter, observe: Observer, options: RunOptions | None = None) -> RunManifest:
    """Run the plan to its end; InfrastructureError where it failed, and not by the training program's own doing."""

    async def alone() -> RunManifest:
        with on_signals() as stop:
            return await execute_until(stop, planned, writer, observe, options or RunOptions())

    return asyncio.run(alone())


async def execute_until(
    stop: Stop, planned: Planned, writer: RunWriter, observe: Observer, options: RunOptions
) -> RunManifest:
    """The same, among others that one stop ends."""
    try:
        return await Supervisor(planned, writer, observe, options).run(stop)
    except OSError as reason:
        with contextlib.suppress(OSError):  # what cannot be written now reads as interrupted
            writer.finish("failed", None, Failure(kind="record", message=str(reason)))
        message = f"{writer.directory}: the run could not be recorded further ({reason.strerror or reason})"
        out = str(writer.directory)
        raise InfrastructureError(message, key="--out", value=out, expected="a disk with room") from None
