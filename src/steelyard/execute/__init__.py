"""Runs a plan with the executor that it was made for, and records it in a run directory."""

import asyncio
import contextlib
import platform as system
import secrets
import shlex
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from steelyard import __version__, records
from steelyard.data.fingerprint import fingerprint_if_small
from steelyard.errors import InfrastructureError, InputError
from steelyard.execute.executor import ImageSource, Limits, RunOptions, Stop, executor_of
from steelyard.execute.recording import Observer
from steelyard.execute.supervisor import Supervisor
from steelyard.experiment.case import Case
from steelyard.experiment.partial import PartialExperiment
from steelyard.experiment.sources import DERIVED
from steelyard.hardware.catalog import CATALOG
from steelyard.hardware.machine import Machine
from steelyard.planning.make import Planned, platform_label
from steelyard.records import Failure, Run, RunManifest, RunWriter
from steelyard.records.writer import rewrite_manifest

__all__ = [
    "ImageSource",
    "Limits",
    "RunOptions",
    "check",
    "execute",
    "execute_until",
    "new_run",
    "on_signals",
    "unstarted_run",
]

_MOST_HASHED = 1 << 30
"""Bytes of a corpus that a run hashes before it starts; `steelyard data fingerprint` has no limit."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Ctrl-C, SIGTERM and a closed terminal stop a run in the same orderly way."""


def check(planned: Planned, machine: Machine, options: RunOptions | None = None) -> None:
    """Refuse a plan that cannot run here, before anything is created."""
    executor_of(planned.plan).check(planned, machine, options or RunOptions())


def new_run(planned: Planned, out: Path, name: str | None, command: list[str]) -> RunWriter:
    """Create the run directory of a plan."""
    plan = planned.plan
    # Marks everything the run creates on a host outside its directory. Unique, whoever starts the run.
    job = f"{plan.experiment}-{secrets.token_hex(6)}" if plan.nodes[0].directory is not None else None
    manifest = manifest_of(planned.case, command)
    update: dict[str, Any] = {
        "job": job,
        "hosts": [node.host for node in plan.nodes] if job else [system.node()],
        "expected": plan.expected.model_dump(mode="json"),
        "allowed": plan.allowed,
    }
    if job is None and (content := _fingerprint(planned)) is not None:
        experiment = planned.case.resolved.experiment.model_dump(mode="json")
        experiment["data"]["fingerprint"] = content
        sources = {**manifest.sources, "data.fingerprint": str(DERIVED)}
        update |= {"experiment": PartialExperiment(experiment), "sources": sources}
    return records.create_run(out, manifest.model_copy(update=update), plan.model_dump(mode="json"), name)


def unstarted_run(case: Case, directory: Path) -> Run:
    """A run directory with the settings of a case and without steps, to compare them before anything runs."""
    rewrite_manifest(directory, manifest_of(case, []))
    return records.load(directory)


def manifest_of(case: Case, command: list[str]) -> RunManifest:
    """What run.json records of a case."""
    resolved, label = case.resolved, platform_label(case)
    return RunManifest(
        name=records.stamped(resolved.experiment.name, label),
        framework=resolved.platform.framework,
        experiment=PartialExperiment(resolved.experiment.model_dump(mode="json")),
        sources={key: str(source) for key, source in resolved.sources.items()},
        platform=_platform(case, label),
        expected={},
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


def _fingerprint(planned: Planned) -> str | None:
    """The hash of a corpus on this machine that can be read in about a second; InputError if another is declared."""
    resolved, data = planned.case.resolved, planned.case.resolved.experiment.data
    if data.source != "tokens" or data.path is None:
        return None
    content = fingerprint_if_small((resolved.file.parent / data.path).resolve(), _MOST_HASHED)
    kinds = [text.partition(":")[0] for text in (content, data.fingerprint) if text is not None]
    if content is not None and data.fingerprint not in (None, content) and len(set(kinds)) == 1:
        raise InputError(
            f"data.fingerprint is {data.fingerprint}, but {data.path} has {content}",
            key="data.fingerprint",
            value=data.fingerprint,
            expected=content,
            next=f"steelyard data fingerprint {shlex.quote(data.path)}",
        )
    return content if data.fingerprint is None else None


def _platform(case: Case, label: str) -> records.RunPlatform:
    placement = case.placement
    gpu = placement.gpu
    return records.RunPlatform(
        name=label,
        gpu=gpu.name if gpu else None,
        gpu_name=placement.gpu_name,
        nodes=placement.nodes,
        gpus_per_node=placement.gpus_per_node,
        world_size=placement.world_size,
        peak_tflops_per_gpu=placement.peak_tflops(case.resolved.experiment.precision),
        gpu_by="config" if case.resolved.platform.gpu else "driver",
        peaks_tflops=dict(gpu.peaks) if gpu else {},
        peaks_by=CATALOG if gpu else None,
        memory_gib=gpu.usable_gib if gpu else None,
        memory_by=CATALOG if gpu and gpu.usable_gib else None,
    )


@contextlib.contextmanager
def on_signals() -> Iterator[Stop]:
    """Inside the `with`, a signal only sets an event: the first stops the run, the second leaves at once."""
    stop, loop = Stop(), asyncio.get_running_loop()

    def on_signal() -> None:
        (stop.at_once if stop.asked.is_set() else stop.asked).set()

    for number in _SIGNALS:
        loop.add_signal_handler(number, on_signal)
    try:
        yield stop
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)


def execute(planned: Planned, writer: RunWriter, observe: Observer, options: RunOptions | None = None) -> RunManifest:
    """Run the plan to its end. InfrastructureError if it failed for another reason than the training program."""

    async def with_own_stop() -> RunManifest:
        with on_signals() as stop:
            return await execute_until(stop, planned, writer, observe, options or RunOptions())

    return asyncio.run(with_own_stop())


async def execute_until(
    stop: Stop, planned: Planned, writer: RunWriter, observe: Observer, options: RunOptions
) -> RunManifest:
    """The same for one of several runs that share one stop."""
    try:
        return await Supervisor(planned, writer, observe, options).run(stop)
    except OSError as reason:
        with contextlib.suppress(OSError):  # if this cannot be written either, the run counts as interrupted
            writer.finish("failed", None, Failure(kind="record", message=str(reason)))
        out = str(writer.directory)
        message, fix = f"cannot write the run to {out} ({reason.strerror or reason})", f"df -h {shlex.quote(out)}"
        raise InfrastructureError(message, key="--out", value=out, expected="free disk space", next=fix) from None
