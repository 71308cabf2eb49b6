"""A fleet: one single-node plan on several hosts, a run each, under one loop and one stop."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from steelyard.cluster.host import Host
from steelyard.errors import InfrastructureError
from steelyard.lint import Case
from steelyard.records import RunManifest, RunWriter
from steelyard.runner.execute import unrecordable
from steelyard.runner.hosted import HostedRun, Options
from steelyard.runner.interrupts import on_signals
from steelyard.runner.plan import Plan
from steelyard.runner.recording import Observer

AT_ONCE = 64
"""Runs at a time; the others wait for their turn."""


@dataclass(frozen=True, slots=True)
class FleetJob:
    """What one host is to run."""

    plan: Plan
    """Of one node."""
    host: Host
    options: Options
    create: Callable[[], RunWriter]
    """Makes its run directory, once its turn has come."""
    observe: Observer
    ended: Callable[[RunManifest], None]


def split(plan: Plan) -> list[Plan]:
    """The plan of each run of a fleet."""
    return [plan.model_copy(update={"fleet": False, "nodes": [node]}) for node in plan.nodes]


def execute_fleet(jobs: Sequence[FleetJob], case: Case, at_once: int = AT_ONCE) -> bool:
    """Run all of them, each to its own end; whether they were asked to stop."""
    return asyncio.run(_execute(jobs, case, at_once))


async def _execute(jobs: Sequence[FleetJob], case: Case, at_once: int) -> bool:
    asked_to_stop, turns = asyncio.Event(), asyncio.Semaphore(at_once)

    async def one(job: FleetJob) -> None:
        async with turns:
            if not asked_to_stop.is_set():
                await _run(job, case, asked_to_stop)

    with on_signals(asked_to_stop.set):
        done = await asyncio.gather(*(one(job) for job in jobs), return_exceptions=True)
    for outcome in done:  # only once no host is left alone
        if outcome is not None:
            raise outcome
    return asked_to_stop.is_set()


async def _run(job: FleetJob, case: Case, asked_to_stop: asyncio.Event) -> None:
    writer = job.create()
    try:
        await HostedRun(job.plan, case, writer, job.observe, [job.host], job.options).run(asked_to_stop)
    except InfrastructureError:
        assert writer.manifest.failure is not None, "the record says why, and the others go on"
    except OSError as reason:
        unrecordable(writer, reason)
    job.ended(writer.manifest)
