"""A fleet on the command line: run, run again where it failed, and judged."""

import shlex
from collections.abc import Sequence
from functools import partial
from typing import Any

from steelyard import verdict
from steelyard.campaign import CampaignRequest
from steelyard.campaign.fleet import judge_and_save, lost_runs, run_fleet
from steelyard.campaign.fleet_verdict import METRICS, FleetVerdict
from steelyard.cli import check, printing
from steelyard.cli.progress import FleetView
from steelyard.cli.run import RECORDED, run_document
from steelyard.errors import Exit, InfrastructureError
from steelyard.execute import RunOptions
from steelyard.planning.make import Planned
from steelyard.records.fleet import Fleet
from steelyard.reporting import junit
from steelyard.reporting.curves import figures_row
from steelyard.reporting.fleet_page import why

_ABSENT: dict[str, Any] = {"run": None, "status": "interrupted", "verdict": None, "not_applicable": [], "findings": []}


class _Reporter:
    watch = FleetView
    not_saved = staticmethod(check.not_saved)

    def fleet_begins(self, fleet: Fleet, hosts: Sequence[str]) -> None:
        if hosts:
            printing.note(f"recording {fleet.directory}: {len(hosts)} of {len(fleet.manifest.runs)} hosts")
        else:
            printing.note(f"nothing to run again: every host of {fleet.directory} passed")


def launch_fleet(
    planned: Planned, options: RunOptions, request: CampaignRequest, rerun: str | None, as_json: bool
) -> int:
    """Run a fleet, or those of its hosts again that did not pass, and show what it came to."""
    fleet, judged, stopped = run_fleet(planned, options, request, _Reporter(), rerun)
    runs = fleet.manifest.runs
    failed, document = any(run.status == "failed" for run in runs), _document(fleet)
    if not as_json:
        _show(fleet, judged)
    again = f"the same command with --rerun-failed {shlex.quote(str(fleet.directory))}"
    if (lost := lost_runs(fleet)) and not stopped:
        named = ", ".join(f"{run.host} (in {run.failure.phase or run.failure.kind})" for run in lost if run.failure)
        message = f"{len(lost)} of {len(runs)} runs failed for want of infrastructure: {named}"
        error = InfrastructureError(message, key="host", value=lost[0].host, next=again)
        printing.show_error(error, as_json, extra=document)
        return error.exit
    if as_json:
        printing.show_json(document)
    elif stopped or failed:
        printing.say(f"next: {again}")
    else:
        check.say_next(None, fleet.directory)
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


def check_fleet(fleet: Fleet, thresholds: Sequence[str], options: check.CheckOptions) -> int:
    """The verdict of each run and of all together; 3 where a host failed for the infrastructure."""
    bounded = partial(verdict.read_subject, thresholds=thresholds, warmup_steps=options.warmup_steps)
    judged, fleet = judge_and_save(fleet, check.not_saved, bounded)
    if options.junit is not None:
        verdicts = [member.verdict for member in judged.members if member.verdict is not None]
        junit.write(options.junit, verdicts, [member.host for member in judged.members if member.verdict is None])
    if options.as_json:
        runs = [
            {"host": member.host, **(member.verdict.document() if member.verdict else _ABSENT)}
            for member in judged.members
        ]
        printing.show_json({**_document(fleet), "runs": runs})
    else:
        _show(fleet, judged)
        check.say_next(options.junit, fleet.directory)
    return Exit.INFRASTRUCTURE if lost_runs(fleet) else verdict.EXIT_OF[judged.status]


def _show(fleet: Fleet, judged: FleetVerdict | None) -> None:
    """A line a host, why one did not pass, and what stands out."""
    printing.say(f"fleet: {judged.status.value.upper() if judged else 'not judged'}  {fleet.directory}")
    rows = [["host", "status", "verdict", "steps", *METRICS]]
    for at, (entry, run) in enumerate(zip(fleet.manifest.runs, fleet.runs(), strict=True)):
        own = judged.members[at].verdict if judged else None
        figures = figures_row(own.figures.metric(metric).value if own else None for metric in METRICS)
        rows.append([entry.host, entry.status, entry.verdict or "-", str(run.num_steps) if run else "0", *figures])
    printing.table(rows, "  ")
    for member in judged.members if judged else ():
        if (words := why(member)) is not None:
            printing.item("  ", words)
    for outlier in fleet.manifest.outliers:
        printing.item("  ", f"outlier: {outlier.words}")
    for finding in fleet.manifest.preflight:
        if not finding.required:  # what was, is why its run failed
            printing.item("  ", f"preflight: {finding.words}")
