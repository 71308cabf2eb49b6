"""A fleet on the command line: run it, run failed hosts again, judge it."""

import shlex
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from steelyard import verdict
from steelyard.campaign import CampaignRequest
from steelyard.campaign.fleet import judge_and_save, lost_runs, run_fleet
from steelyard.campaign.fleet_verdict import METRICS, FleetVerdict, Member
from steelyard.cli import printing, runs_show
from steelyard.cli.outcome import RECORDED, not_saved, run_document, say_next
from steelyard.cli.progress import FleetView
from steelyard.errors import Exit, InfrastructureError
from steelyard.execute import RunOptions
from steelyard.planning.make import Planned
from steelyard.records.fleet import Fleet
from steelyard.reporting import junit
from steelyard.verdict import Status

if TYPE_CHECKING:
    from steelyard.cli.check import CheckOptions

_ABSENT: dict[str, Any] = {"run": None, "status": "interrupted", "verdict": None, "not_applicable": [], "findings": []}
_MOST_ROWS = 8
"""Hosts in the table; all of them are in `steelyard runs show`."""


class _Reporter:
    watch = FleetView
    not_saved = staticmethod(not_saved)

    def fleet_begins(self, fleet: Fleet, hosts: Sequence[str]) -> None:
        if hosts:
            of_all = f"{len(hosts)} of {len(fleet.manifest.runs)} hosts"
            printing.note(f"recording a fleet in {fleet.directory}: {of_all}")
        else:
            printing.note(f"nothing to run: all hosts of {fleet.directory} passed")


def launch_fleet(
    planned: Planned, options: RunOptions, request: CampaignRequest, resume: str | None, as_json: bool
) -> int:
    """Run a fleet, or again its hosts that did not pass, and show the result."""
    fleet, judged, stopped = run_fleet(planned, options, request, _Reporter(), resume)
    runs = fleet.manifest.runs
    failed, document = any(run.status == "failed" for run in runs), _document(fleet)
    if not as_json:
        _show(fleet, judged)
    again = f"the same command with --resume {shlex.quote(str(fleet.directory))}"
    if (lost := lost_runs(fleet)) and not stopped:
        hosts = [f"{run.host} ({run.failure.phase or run.failure.kind})" for run in lost if run.failure]
        message = f"infrastructure failure on {len(lost)} of {len(runs)} hosts: {runs_show.few(hosts)}"
        error = InfrastructureError(message, key="host", value=lost[0].host, next=again)
        printing.show_error(error, as_json, extra=document)
        return error.exit
    if as_json:
        printing.show_json(document)
    elif stopped or failed:
        runs_show.say_next(again)
    else:
        say_next(None, fleet.directory)
    if stopped:
        return Exit.INTERRUPTED
    return verdict.EXIT_OF[judged.status] if judged else RECORDED["failed" if failed else "completed"]


def _document(fleet: Fleet) -> dict[str, Any]:
    runs = []
    for entry, run in zip(fleet.manifest.runs, fleet.runs(), strict=True):
        if run is None:
            shown = dict.fromkeys(("run", "framework", "verdict", "failure")) | {"status": entry.status, "steps": 0}
        else:
            shown = run_document(run.directory, run.manifest, run.num_steps, entry.verdict)
        runs.append({"host": entry.host, **shown})
    return {
        "fleet": str(fleet.directory.resolve()),
        "runs": runs,
        "verdict": fleet.manifest.verdict,
        **fleet.manifest.model_dump(mode="json", include={"outliers", "preflight"}),
    }


def check_fleet(fleet: Fleet, thresholds: Sequence[str], options: "CheckOptions") -> int:
    """Judge each run and the fleet; exit status 3 if a host had an infrastructure failure."""
    bounded = partial(verdict.read_subject, thresholds=thresholds, warmup_steps=options.warmup_steps)
    judged, fleet = judge_and_save(fleet, not_saved, bounded)
    if options.junit is not None:
        verdicts = [member.verdict for member in judged.members if member.verdict is not None]
        absent = [member.host for member in judged.members if member.verdict is None]
        junit.write(options.junit, junit.of_verdicts(verdicts, absent))
    if options.as_json:
        runs = [
            {"host": member.host, **(member.verdict.document() if member.verdict else _ABSENT)}
            for member in judged.members
        ]
        printing.show_json({**_document(fleet), "runs": runs})
    else:
        _show(fleet, judged, options.quiet)
        if not options.quiet:
            say_next(options.junit, fleet.directory)
    return Exit.INFRASTRUCTURE if lost_runs(fleet) else verdict.EXIT_OF[judged.status]


def _show(fleet: Fleet, judged: FleetVerdict | None, quiet: bool = False) -> None:
    """Verdict and counts, the hosts that did not pass or are slow, then why."""
    runs_show.say_fleet(fleet, [entry.verdict for entry in fleet.manifest.runs])
    if quiet:
        return
    rows, differing = [], {outlier.host for outlier in fleet.manifest.outliers}
    for at, (entry, run) in enumerate(zip(fleet.manifest.runs, fleet.runs(), strict=True)):
        own = judged.members[at].verdict if judged else None
        figures = {metric: own.figures.metric(metric).value if own else None for metric in METRICS}
        steps = run.num_steps if run else 0
        rows.append(runs_show.member_cells(entry.host, entry.status, entry.verdict, steps, figures))
    if len(rows) > _MOST_ROWS:
        rows.sort(key=lambda row: (row["verdict"] == "pass", row["name"] not in differing))
    all_hosts = f"steelyard runs show {shlex.quote(str(fleet.directory))}"
    runs_show.show_few(runs_show.MEMBER_COLUMNS, rows, _MOST_ROWS, all_hosts)
    runs_show.say_outliers(fleet.manifest.outliers)
    runs_show.say_preflight(fleet, only_optional=True)
    runs_show.say_reasons(reasons(judged.members if judged else ()))


def reasons(members: Iterable[Member]) -> Iterator[runs_show.NotPassed]:
    """Hosts or repeats that did not pass, and why."""
    for member in members:
        if member.run is None or member.verdict is None:
            yield runs_show.NotPassed(member.host, Status.FAIL, "not started")
        elif (failure := member.run.manifest.failure) is not None:
            yield runs_show.NotPassed(member.host, Status.FAIL, runs_show.failure_words(failure))
        elif member.verdict.status != Status.PASS:
            finding = (*member.verdict.failed(), *member.verdict.undecided())[0]
            yield runs_show.NotPassed(member.host, member.verdict.status, f"{finding.check}: {finding.message}")
