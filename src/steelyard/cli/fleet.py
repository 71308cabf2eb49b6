"""A fleet on the command line: run, run again where it failed, and judged."""

import shlex
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from steelyard import verdict
from steelyard.campaign import CampaignRequest
from steelyard.campaign.fleet import judge_and_save, lost_runs, run_fleet
from steelyard.campaign.fleet_verdict import METRICS, FleetVerdict
from steelyard.cli import check, printing
from steelyard.cli.progress import FleetView
from steelyard.cli.run import RECORDED
from steelyard.cli.run import document as run_document
from steelyard.errors import Exit, InfrastructureError
from steelyard.execute import RunOptions
from steelyard.planning.make import Planned
from steelyard.records.fleet import Fleet
from steelyard.reporting.curves import number
from steelyard.reporting.fleet_page import why


class _Reporter:
    """Tells a person how a fleet goes on."""

    def fleet_begins(self, fleet: Fleet, hosts: Sequence[str]) -> None:
        if hosts:
            printing.note(f"recording {fleet.directory}: {len(hosts)} of {len(fleet.manifest.runs)} hosts")
        else:
            printing.note(f"nothing to run again: every host of {fleet.directory} passed")

    def watch(self, num_runs: int, steps: int) -> FleetView:
        return FleetView(num_runs, steps)

    def not_saved(self, path: Path, reason: OSError) -> None:
        check.not_saved(path, reason)


def launch_fleet(
    planned: Planned, options: RunOptions, request: CampaignRequest, rerun: str | None, as_json: bool
) -> int:
    """Run a fleet, or those of its hosts again that did not pass, and show what it came to."""
    return _tell(*run_fleet(planned, options, request, _Reporter(), rerun), as_json)


def _tell(fleet: Fleet, judged: FleetVerdict | None, stopped: bool, as_json: bool) -> int:
    lost, failed = lost_runs(fleet), [run for run in fleet.manifest.runs if run.status == "failed"]
    document = _document(fleet)
    if not as_json:
        show(fleet, judged)
    rerun = f"the same command with --rerun-failed {shlex.quote(str(fleet.directory))}"
    if lost and not stopped:
        named = ", ".join(f"{run.host} (in {run.failure.phase or run.failure.kind})" for run in lost if run.failure)
        message = f"{len(lost)} of {len(fleet.manifest.runs)} runs failed for want of infrastructure: {named}"
        error = InfrastructureError(message, key="host", value=lost[0].host, next=rerun)
        printing.show_error(error, as_json, beside=document)
        return error.exit
    if as_json:
        printing.show_json(document)
    else:
        printing.say(f"next: {rerun if stopped or failed else _report(fleet)}")
    if stopped:
        return Exit.INTERRUPTED
    if judged is None:
        return RECORDED["failed" if failed else "completed"]
    return verdict.EXIT_OF[judged.status]


def _report(fleet: Fleet) -> str:
    return f"steelyard report {shlex.quote(str(fleet.directory))}"


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
        "outliers": [outlier.model_dump(mode="json") for outlier in fleet.manifest.outliers],
        "preflight": [finding.model_dump(mode="json") for finding in fleet.manifest.preflight],
    }


def check_fleet(fleet: Fleet, thresholds: Sequence[str], warmup_steps: int, junit: Path | None, as_json: bool) -> int:
    """The verdict of each run and of all together; 3 where a host failed for the infrastructure."""
    from steelyard.reporting import junit as junit_format
    from steelyard.reporting.files import write_report

    bounded = partial(verdict.read_subject, thresholds=thresholds, warmup_steps=warmup_steps)
    judged, fleet = judge_and_save(fleet, check.not_saved, bounded)
    if junit is not None:
        verdicts = [member.verdict for member in judged.members if member.verdict is not None]
        absent = [member.host for member in judged.members if member.verdict is None]
        write_report(junit, junit_format.render(*verdicts, absent=absent), junit_format.MARK, "--junit")
    if as_json:
        runs = [
            {"host": member.host, **(member.verdict.document() if member.verdict else _ABSENT)}
            for member in judged.members
        ]
        printing.show_json({**_document(fleet), "runs": runs})
    else:
        show(fleet, judged)
        if junit is not None:
            printing.say(f"wrote {junit}")
        printing.say(f"next: {_report(fleet)}")
    return Exit.INFRASTRUCTURE if lost_runs(fleet) else verdict.EXIT_OF[judged.status]


_ABSENT: dict[str, Any] = {"run": None, "status": "interrupted", "verdict": None, "not_applicable": [], "findings": []}


def show(fleet: Fleet, judged: FleetVerdict | None) -> None:
    """A line a host, why one did not pass, and what stands out."""
    word = judged.status.value.upper() if judged else "not judged"
    printing.say(f"fleet: {word}  {fleet.directory}")
    rows = [["host", "status", "verdict", "steps", *METRICS]]
    runs = fleet.runs()
    for at, (entry, run) in enumerate(zip(fleet.manifest.runs, runs, strict=True)):
        own = judged.members[at].verdict if judged else None
        values = [own.figures.metric(metric).value if own else None for metric in METRICS]
        figures = ["-" if value is None else number(value) for value in values]
        rows.append([entry.host, entry.status, entry.verdict or "-", str(run.num_steps) if run else "0", *figures])
    printing.table(rows, "  ")
    for member in judged.members if judged else ():
        if (words := why(member)) is not None:
            printing.say(printing.hang("  ", printing.inert(words)))
    for outlier in fleet.manifest.outliers:
        printing.say(printing.hang("  ", f"outlier: {printing.inert(outlier.words)}"))
    for finding in fleet.manifest.preflight:
        if not finding.required:  # what was, is why its run failed
            printing.say(printing.hang("  ", f"preflight: {printing.inert(finding.words)}"))
