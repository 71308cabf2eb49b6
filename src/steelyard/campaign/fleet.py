"""Runs a fleet: one single-node plan on several hosts, one run per host, at the same time."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Protocol

from steelyard import execute, records, verdict
from steelyard.campaign import CampaignRequest
from steelyard.campaign.fleet_verdict import FleetVerdict, judge_fleet
from steelyard.campaign.resume import RESUME, check_no_name, check_same_experiment
from steelyard.errors import InfrastructureError, InputError
from steelyard.execute import RunOptions, on_signals
from steelyard.execute.cluster import EXECUTOR as CLUSTER
from steelyard.execute.cluster import hosts_for, preflight_findings
from steelyard.execute.executor import TRAINING, Stop
from steelyard.execute.host import Host, HostError
from steelyard.execute.preflight import HostFinding
from steelyard.execute.recording import Observer
from steelyard.planning.make import Planned, platform_label
from steelyard.planning.plan import Plan
from steelyard.records import Run, RunManifest, RunWriter
from steelyard.records.fleet import (
    Fleet,
    FleetRun,
    PreflightFinding,
    again,
    find_fleet,
    fleets_under,
    held_directory,
    new_fleet,
)
from steelyard.records.reader import listing, not_found
from steelyard.verdict import Status, Subject

AT_ONCE = 64
"""Runs at the same time; the others wait."""


class FleetObserver(Protocol):
    def observer(self, host: str) -> Observer:
        """Receives the steps and events of one run."""

    def ended(self, host: str, manifest: RunManifest) -> None: ...

    def unfit(self, finding: HostFinding) -> None:
        """A failed preflight finding of a host of the fleet."""


class FleetReporter(Protocol):
    def fleet_begins(self, fleet: Fleet, hosts: Sequence[str]) -> None:
        """`hosts`: those that will run; empty if all have passed already."""

    def watch(self, num_runs: int, steps: int) -> AbstractContextManager[FleetObserver]: ...

    def not_saved(self, path: Path, reason: OSError) -> None: ...


def run_fleet(
    planned: Planned, options: RunOptions, request: CampaignRequest, reporter: FleetReporter, resume: str | None = None
) -> tuple[Fleet, FleetVerdict | None, bool]:
    """Run all hosts, or those that did not pass in `resume`. Returns fleet, verdict, and whether it was stopped."""
    plans = {plan.nodes[0].host: plan for plan in split(planned.plan)}
    earlier = _earlier_fleet(planned, resume, request) if resume is not None else None
    names = _unpassed(earlier, plans) if earlier else list(plans)
    runs = [replace(planned, plan=plans[name]) for name in names]
    hosts = dict(zip(names, hosts_for(names, options), strict=True))
    others = hosts_for([name for name in plans if name not in hosts], options) if options.preflight else []
    own = records.stamped(planned.plan.experiment, platform_label(planned.case))
    fleet = earlier or new_fleet(request.out, request.name, own, names)
    stopped = False
    if names:
        with held_directory(fleet.directory):
            fleet = again(fleet, names) if earlier else fleet
            reporter.fleet_begins(fleet, names)
            with reporter.watch(len(runs), planned.case.resolved.experiment.training.steps) as view:
                ask = partial(preflight_findings, planned=planned, options=options)
                preflight = FleetPreflight(ask, others, view.unfit) if options.preflight else None
                jobs = [_job(run, hosts, fleet, request.command, view) for run in runs]
                stopped = execute_fleet(jobs, options, preflight=preflight.unfit if preflight else None)
            fleet = preflight.recorded_in(fleet) if preflight else fleet
    else:
        reporter.fleet_begins(fleet, names)
    if stopped or not request.judges:
        return _saved(fleet.refreshed(fleet.runs()), reporter.not_saved), None, stopped
    judged, fleet = judge_and_save(fleet, reporter.not_saved)
    return fleet, judged, stopped


def judge_and_save(
    fleet: Fleet, not_saved: Callable[[Path, OSError], None], read: Callable[[Run], Subject] = verdict.read_subject
) -> tuple[FleetVerdict, Fleet]:
    """Judge a fleet; save each verdict with its run, and all of them in fleet.json."""
    judged = judge_fleet(fleet, read)
    for member in judged.members:
        if member.verdict is not None:
            verdict.save(member.verdict, not_saved)
    return judged, _saved(judged.updated(), not_saved)


def lost_runs(fleet: Fleet) -> list[FleetRun]:
    """Runs with an infrastructure failure."""
    return [run for run in fleet.manifest.runs if run.failure is not None and run.failure.kind not in TRAINING]


def _saved(fleet: Fleet, not_saved: Callable[[Path, OSError], None]) -> Fleet:
    try:
        fleet.save()
    except OSError as reason:
        not_saved(fleet.directory / records.FLEET, reason)
    return fleet


def _earlier_fleet(planned: Planned, resume: str, request: CampaignRequest) -> Fleet:
    """The fleet to run again; InputError if the plan differs from its own."""
    check_no_name(request)
    fleet = find_fleet(resume, request.out)
    if fleet is None:
        names = [path.name for path in fleets_under(request.out)]
        details = {"key": RESUME, "expected": "a directory with fleet.json", "next": listing(request.out)}
        raise not_found("Fleet", resume, names, request.out, **details)
    nodes, file = planned.case.placement.nodes, planned.case.resolved.file
    if nodes != 1 or not CLUSTER.takes(planned.plan):
        planned_as = "a run on this machine" if nodes == 1 else f"one job on {nodes} hosts"
        expected = "the config and the cluster file of the fleet"
        raise InputError(f"{file} is planned as {planned_as}, not a fleet", key=RESUME, value=resume, expected=expected)
    if (earlier := next((run for run in fleet.runs() if run is not None), None)) is not None:
        check_same_experiment(planned, earlier, fleet.directory)
    return fleet


def _unpassed(fleet: Fleet, plans: Mapping[str, Plan]) -> list[str]:
    """Hosts whose run did not complete or did not pass."""
    hosts = [
        entry.host
        for entry, run in zip(fleet.manifest.runs, fleet.runs(), strict=True)
        if run is None or run.status != "completed" or verdict.word_of(run) in ("fail", "unknown")
    ]
    if missing := [host for host in hosts if host not in plans]:
        problem = f"the cluster file lacks {', '.join(missing)}, which did not pass in {fleet.directory}"
        raise InputError(problem, key="--cluster", value=missing[0], expected="all hosts of the fleet")
    return hosts


Ask = Callable[[Sequence[Host]], Awaitable[list[HostFinding]]]


class FleetPreflight:
    """Preflight of all hosts of a fleet together: which hosts may run, and why the others may not."""

    def __init__(self, ask: Ask, others: Sequence[Host], report: Callable[[HostFinding], None]) -> None:
        """`others` do not run again but are compared with `hosts`; `report` gets the failed findings."""
        self._ask, self._others, self._report = ask, others, report
        self._findings: list[HostFinding] | None = None

    async def unfit(self, hosts: Sequence[Host]) -> dict[str, HostError]:
        """Hosts that must not run, with the reason."""
        try:
            findings = await self._ask([*hosts, *self._others])
        finally:
            await asyncio.gather(*(host.close() for host in self._others))
        self._findings = [finding for finding in findings if finding.blocks or finding.status == Status.FAIL]
        names = [host.name for host in hosts]
        for finding in self._findings:
            if finding.host is None or finding.host in names:
                self._report(finding)
        unfit: dict[str, HostError] = {}
        for finding in self._findings:
            # A finding about this machine keeps all hosts from running.
            for name in names if finding.host is None else {finding.host} & {*names}:
                if finding.blocks and name not in unfit:
                    unfit[name] = HostError(name, finding.message, key=finding.check, next=finding.fix)
        return unfit

    def recorded_in(self, fleet: Fleet) -> Fleet:
        """The fleet with its failed preflight findings."""
        if self._findings is None:
            return fleet
        hosts = {None, *(run.host for run in fleet.manifest.runs)}
        kept = (finding for finding in self._findings if finding.host in hosts)
        return fleet.updated(preflight=[PreflightFinding.model_validate(each, from_attributes=True) for each in kept])


def split(plan: Plan) -> list[Plan]:
    return [plan.model_copy(update={"fleet": False, "nodes": [node]}) for node in plan.nodes]


@dataclass(frozen=True, slots=True)
class FleetJob:
    planned: Planned
    """For one node."""
    host: Host
    create: Callable[[], RunWriter]
    """Creates its run directory when it starts."""
    observe: Observer
    ended: Callable[[RunManifest], None]


def _job(
    planned: Planned, hosts: Mapping[str, Host], fleet: Fleet, command: list[str], view: FleetObserver
) -> FleetJob:
    name = planned.plan.nodes[0].host
    directory = next(run.directory for run in fleet.manifest.runs if run.host == name)
    create = partial(execute.new_run, planned, fleet.directory, directory, command)
    return FleetJob(planned, hosts[name], create, view.observer(name), partial(view.ended, name))


AskUnfit = Callable[[Sequence[Host]], Awaitable[Mapping[str, HostError]]]
"""Checks all hosts together before the first run: which must not run, and why."""


def execute_fleet(
    jobs: Sequence[FleetJob], options: RunOptions, at_once: int = AT_ONCE, preflight: AskUnfit | None = None
) -> bool:
    """Run all jobs whose host passed preflight. Returns whether a stop interrupted or prevented one."""
    return asyncio.run(_execute(jobs, options, at_once, preflight))


async def _execute(jobs: Sequence[FleetJob], options: RunOptions, at_once: int, preflight: AskUnfit | None) -> bool:
    turns = asyncio.Semaphore(at_once)
    options = replace(options, preflight=False, hosts={job.host.name: job.host for job in jobs})
    with on_signals() as stop:
        if preflight is not None:
            unfit = await _unless_stopped(preflight, [job.host for job in jobs], stop)
            if unfit is None:
                return True
            options = replace(options, unfit=unfit)

        async def in_turn(job: FleetJob) -> bool:
            """Whether it was stopped, or never started."""
            async with turns:
                return stop.asked.is_set() or await _run(job, options, stop)

        outcomes = await asyncio.gather(*(in_turn(job) for job in jobs), return_exceptions=True)
    for outcome in outcomes:  # only after every host is done
        if isinstance(outcome, BaseException):
            raise outcome
    return any(outcomes)


async def _unless_stopped(preflight: AskUnfit, hosts: Sequence[Host], stop: Stop) -> Mapping[str, HostError] | None:
    """Hosts that must not run; None after a stop."""
    asking, stopping = asyncio.ensure_future(preflight(hosts)), asyncio.ensure_future(stop.asked.wait())
    await asyncio.wait({asking, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if asking.done():
        return asking.result()
    asking.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asking
    await asyncio.gather(*(host.close() for host in hosts))
    return None


async def _run(job: FleetJob, options: RunOptions, stop: Stop) -> bool:
    writer = job.create()
    try:
        await execute.execute_until(stop, job.planned, writer, job.observe, options)
    except InfrastructureError:
        pass  # recorded in its run; the others continue
    except Exception as reason:  # a bug of ours fails one run, which records it, and not the others
        if writer.manifest.failure is None:
            raise RuntimeError(f"{job.host.name}: {reason}") from reason
    job.ended(writer.manifest)
    return writer.manifest.status == "interrupted"
