"""A fleet on the command line: run, run again where it failed, and judged."""

import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from steelyard import execute, records, verdict
from steelyard.campaign.fleet import FleetJob, execute_fleet, split
from steelyard.campaign.fleet_verdict import FleetVerdict, judge_fleet
from steelyard.campaign.outliers import METRICS
from steelyard.cli import check, printing
from steelyard.cli.fleet_preflight import Ask, Looking
from steelyard.cli.fleet_progress import FleetView
from steelyard.cli.run import RECORDED, document
from steelyard.errors import Exit, InfrastructureError, InputError
from steelyard.execute.host import Host
from steelyard.execute.hosted import TRAINING
from steelyard.experiment.resolve import leaves
from steelyard.planning.plan import Planned, platform_label
from steelyard.records.fleet import Fleet, FleetRun, again, find_fleet, held, new_fleet
from steelyard.reporting.curves import number
from steelyard.reporting.fleet_page import why

Reach = Callable[[Sequence[str]], list[Host]]


def run_fleet(
    made: Planned,
    reach: Reach,
    options: execute.Options,
    look: Ask | None,
    *,
    out: Path,
    name: str | None,
    rerun: str | None,
    no_check: bool,
    as_json: bool,
) -> int:
    """Run every host of a fleet, or those again that did not pass, then judge each and all together."""
    plans = {plan.nodes[0].host: plan for plan in split(made.plan)}
    before = _fleet_again(made, rerun, out, name) if rerun is not None else None
    names = _unpassed(before) if before else list(plans)
    if before:
        _check_hosts(before, names, list(plans))
    wanted = [replace(made, plan=plans[name]) for name in names]
    hosts = reach(names)
    looking = Looking(look, reach([one for one in plans if one not in names])) if look else None
    own = records.run_name(made.plan.experiment, platform_label(made.case))
    fleet, stopped = before or new_fleet(out, name, own, names), False
    if names:
        with held(fleet):
            fleet = again(fleet, names) if before else fleet
            printing.note(f"recording {fleet.directory}: {len(names)} of {len(fleet.manifest.runs)} hosts")
            stopped = _execute(wanted, fleet, hosts, options, looking)
            fleet = looking.kept(fleet) if looking else fleet
    else:
        printing.note(f"nothing to run again: every host of {fleet.directory} passed")
    judged = None if stopped or no_check else judge_fleet(fleet)
    fleet = _keep(judged) if judged else _keep_unjudged(fleet)
    return _tell(fleet, judged, stopped, as_json)


def _execute(
    wanted: Sequence[Planned],
    fleet: Fleet,
    hosts: Sequence[Host],
    options: execute.Options,
    looking: Looking | None,
) -> bool:
    case, places = wanted[0].case, {one.host: one.directory for one in fleet.manifest.runs}
    with FleetView(len(wanted), case.resolved.experiment.training.steps) as view:
        jobs = []
        for made, host in zip(wanted, hosts, strict=True):
            at = made.plan.nodes[0].host
            command, mark = ["steelyard", *sys.argv[1:]], execute.new_job_id(made.plan)
            create = partial(execute.new_run, made.plan, case, fleet.directory, places[at], command, mark)
            observe, ended = view.observer(at), partial(view.ended, at)
            jobs.append(FleetJob(made.plan, host, options, create, observe, ended))
        return execute_fleet(jobs, case, look=looking.told_to(view.say) if looking else None)


def _fleet_again(made: Planned, rerun: str, out: Path, name: str | None) -> Fleet:
    if name is not None:
        raise InputError("--name names a new fleet, and --rerun-failed an old one", key="--name", value=name)
    fleet = find_fleet(rerun, out)
    if fleet is None:
        raise InputError(
            f"{rerun!r} is no fleet, neither as a path nor under {out}",
            key="--rerun-failed",
            value=rerun,
            expected="a directory with fleet.json",
            next=f"steelyard runs list --out {out}",
        )
    if made.case.placement.nodes != 1 or made.plan.nodes[0].directory is None:
        nodes = made.case.placement.nodes
        raise InputError(
            f"{made.case.resolved.file} is planned {'here' if nodes == 1 else f'as one job over {nodes} hosts'}",
            key="--rerun-failed",
            value=rerun,
            expected="the config and the cluster of the fleet",
        )
    before = next((run.manifest.experiment for run in fleet.runs() if run is not None), None)
    if before is not None:
        old, new = dict(leaves(before)), dict(leaves(made.case.resolved.experiment.model_dump(mode="json")))
        different = sorted(key for key in old.keys() | new.keys() if old.get(key) != new.get(key))
        if different:
            key = different[0]
            raise InputError(
                f"{fleet.directory} was run with {key} {old.get(key)!r}, now it is {new.get(key)!r}",
                key=key,
                value=new.get(key),
                expected="the experiment of the fleet",
                next="the same command without --rerun-failed, for a new fleet",
            )
    return fleet


def _unpassed(fleet: Fleet) -> list[str]:
    """Hosts whose run did not complete, or was judged and did not pass."""
    return [
        entry.host
        for entry, run in zip(fleet.manifest.runs, fleet.runs(), strict=True)
        if run is None or run.status != "completed" or verdict.word_of(run) in ("fail", "unknown")
    ]


def _check_hosts(fleet: Fleet, hosts: Sequence[str], planned: Sequence[str]) -> None:
    missing = [host for host in hosts if host not in planned]
    if missing:
        raise InputError(
            f"{', '.join(missing)} of {fleet.directory} would run again and the plan does not name it",
            key="--cluster",
            value=missing[0],
            expected="the hosts of the fleet",
        )


def _keep(judged: FleetVerdict) -> Fleet:
    """Keep each verdict beside its run and all of them in fleet.json; where that cannot be, they are still said."""
    for member in judged.members:
        if member.verdict is not None:
            check.save(member.verdict)
    return _saved(judged.updated())


def _keep_unjudged(fleet: Fleet) -> Fleet:
    return _saved(fleet.refreshed(fleet.runs()))


def _saved(fleet: Fleet) -> Fleet:
    try:
        fleet.save()
    except OSError as reason:
        printing.note(f"warning: {fleet.directory / records.FLEET} cannot be written ({reason.strerror})")
    return fleet


def _tell(fleet: Fleet, judged: FleetVerdict | None, stopped: bool, as_json: bool) -> int:
    lost, failed = _lost(fleet), [one for one in fleet.manifest.runs if one.status == "failed"]
    told = _document(fleet)
    if not as_json:
        show(fleet, judged)
    rerun = f"the same command with --rerun-failed {shlex.quote(str(fleet.directory))}"
    if lost and not stopped:
        named = ", ".join(f"{one.host} (in {one.failure.phase or one.failure.kind})" for one in lost if one.failure)
        message = f"{len(lost)} of {len(fleet.manifest.runs)} runs failed for want of infrastructure: {named}"
        error = InfrastructureError(message, key="host", value=lost[0].host, next=rerun)
        printing.show_error(error, as_json, beside=told)
        return error.exit
    if as_json:
        printing.show_json(told)
    else:
        printing.say(f"next: {rerun if stopped or failed else _report(fleet)}")
    if stopped:
        return Exit.INTERRUPTED
    if judged is None:
        return RECORDED["failed" if failed else "completed"]
    return verdict.EXIT_OF[judged.status]


def _report(fleet: Fleet) -> str:
    return f"steelyard report {shlex.quote(str(fleet.directory))}"


def _lost(fleet: Fleet) -> list[FleetRun]:
    """Runs that failed for the infrastructure."""
    return [one for one in fleet.manifest.runs if one.failure is not None and one.failure.kind not in TRAINING]


def _document(fleet: Fleet) -> dict[str, Any]:
    runs = []
    for entry, run in zip(fleet.manifest.runs, fleet.runs(), strict=True):
        if run is None:
            told = dict.fromkeys(("run", "framework", "verdict", "failure")) | {"status": entry.status, "steps": 0}
        else:
            told = document(run.directory, run.manifest, run.num_steps, entry.verdict)
        runs.append({"host": entry.host, **told})
    return {
        "fleet": str(fleet.directory.resolve()),
        "runs": runs,
        "verdict": fleet.manifest.verdict,
        "outliers": [one.model_dump(mode="json") for one in fleet.manifest.outliers],
        "preflight": [one.model_dump(mode="json") for one in fleet.manifest.preflight],
    }


def check_fleet(fleet: Fleet, thresholds: Sequence[str], warmup_steps: int, junit: Path | None, as_json: bool) -> int:
    """The verdict of each run and of all together; 3 where a host failed for the infrastructure."""
    from steelyard.reporting import junit as junit_format
    from steelyard.reporting.files import write_report

    judged = judge_fleet(fleet, lambda run: verdict.read_subject(run, thresholds, warmup_steps))
    fleet = _keep(judged)
    if junit is not None:
        found = [one.verdict for one in judged.members if one.verdict is not None]
        absent = [one.host for one in judged.members if one.verdict is None]
        write_report(junit, junit_format.render(*found, absent=absent), junit_format.MARK, "--junit")
    if as_json:
        runs = [{"host": one.host, **(one.verdict.document() if one.verdict else _ABSENT)} for one in judged.members]
        printing.show_json({**_document(fleet), "runs": runs})
    else:
        show(fleet, judged)
        if junit is not None:
            printing.say(f"wrote {junit}")
        printing.say(f"next: {_report(fleet)}")
    return Exit.INFRASTRUCTURE if _lost(fleet) else verdict.EXIT_OF[judged.status]


_ABSENT: dict[str, Any] = {"run": None, "status": "interrupted", "verdict": None, "not_applicable": [], "findings": []}


def show(fleet: Fleet, judged: FleetVerdict | None) -> None:
    """A line a host, why one did not pass, and what stands out."""
    word = judged.status.value.upper() if judged else "not judged"
    printing.say(f"fleet: {word}  {fleet.directory}")
    rows = [["host", "status", "verdict", "steps", *METRICS]]
    runs = fleet.runs()
    for at, (entry, run) in enumerate(zip(fleet.manifest.runs, runs, strict=True)):
        found = judged.members[at].verdict if judged else None
        values = [found.figures.metric(metric).value if found else None for metric in METRICS]
        figures = ["-" if value is None else number(value) for value in values]
        rows.append([entry.host, entry.status, entry.verdict or "-", str(run.num_steps) if run else "0", *figures])
    printing.table(rows, "  ")
    for member in judged.members if judged else ():
        if (words := why(member)) is not None:
            printing.say(printing.hang("  ", printing.inert(words)))
    for outlier in fleet.manifest.outliers:
        printing.say(printing.hang("  ", f"outlier: {printing.inert(outlier.words)}"))
    for one in fleet.manifest.preflight:
        if not one.required:  # what was, is why its run failed
            printing.say(printing.hang("  ", f"preflight: {printing.inert(one.words)}"))
