"""A fleet: one single-node plan on several hosts, a run each, under one loop and one stop."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from steelyard.errors import InfrastructureError
from steelyard.execute.here import unrecordable
from steelyard.execute.host import Host, HostError
from steelyard.execute.hosted import HostedRun, Options
from steelyard.execute.interrupts import Stop, on_signals
from steelyard.execute.recording import Observer
from steelyard.experiment.case import Case
from steelyard.planning.plan import Plan
from steelyard.records import RunManifest, RunWriter

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


Look = Callable[[Sequence[Host]], Awaitable[Mapping[str, HostError]]]
"""Looks at all hosts together, before any of them runs: what keeps which of them from it."""


def split(plan: Plan) -> list[Plan]:
    """The plan of each run of a fleet."""
    return [plan.model_copy(update={"fleet": False, "nodes": [node]}) for node in plan.nodes]


def execute_fleet(jobs: Sequence[FleetJob], case: Case, at_once: int = AT_ONCE, look: Look | None = None) -> bool:
    """Run all of them that are fit, each to its own end; whether a stop kept one from it."""
    return asyncio.run(_execute(jobs, case, at_once, look))


async def _execute(jobs: Sequence[FleetJob], case: Case, at_once: int, look: Look | None) -> bool:
    turns = asyncio.Semaphore(at_once)
    with on_signals() as stop:

        async def one(job: FleetJob) -> bool:
            """Whether it was stopped, or never begun."""
            async with turns:
                return stop.asked.is_set() or await _run(job, case, stop)

        if look is not None:
            unfit = await _looked(look, [job.host for job in jobs], stop.asked)
            if unfit is None:
                return True
            jobs = [_told(job, unfit.get(job.host.name)) for job in jobs]
        done = await asyncio.gather(*(one(job) for job in jobs), return_exceptions=True)
    for outcome in done:  # only once no host is left alone
        if isinstance(outcome, BaseException):
            raise outcome
    return any(done)


async def _looked(look: Look, hosts: Sequence[Host], asked_to_stop: asyncio.Event) -> Mapping[str, HostError] | None:
    """What keeps which host from running; None where we were stopped meanwhile."""
    looking, stopping = asyncio.ensure_future(look(hosts)), asyncio.ensure_future(asked_to_stop.wait())
    await asyncio.wait({looking, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if looking.done():
        return looking.result()
    looking.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await looking
    await asyncio.gather(*(host.close() for host in hosts))
    return None


def _told(job: FleetJob, unfit: HostError | None) -> FleetJob:
    """The same job, whose preflight is what was seen of its host: it fails by itself, with a record of its own."""

    async def as_seen(hosts: Sequence[Host]) -> None:
        if unfit is not None:
            raise unfit

    return replace(job, options=replace(job.options, preflight=as_seen))


async def _run(job: FleetJob, case: Case, stop: Stop) -> bool:
    writer = job.create()
    try:
        await HostedRun(job.plan, case, writer, job.observe, [job.host], job.options).run(stop)
    except InfrastructureError:
        assert writer.manifest.failure is not None, "the record says why, and the others go on"
    except OSError as reason:
        unrecordable(writer, reason)
    except Exception as reason:  # a fault of our own costs one run, as its record says, and not the others
        if writer.manifest.failure is None:
            raise RuntimeError(f"{job.host.name}: {reason}") from reason
    job.ended(writer.manifest)
    return writer.manifest.status == "interrupted"
