"""The report of a fleet."""

import shlex
import statistics
from collections.abc import Sequence
from urllib.parse import quote

from steelyard.campaign.fleet_verdict import LEAST_RUNS, METRICS, FleetVerdict, Member
from steelyard.records import unstamped
from steelyard.records.fleet import Outlier
from steelyard.reporting import html
from steelyard.reporting.curves import number
from steelyard.reporting.page import Cell, Page, Table, Tile, Tone
from steelyard.reporting.run_page import TONE_OF
from steelyard.verdict import Status

_SENTENCE = {
    Status.PASS: "Every run passed.",
    Status.FAIL: "A run failed.",
    Status.UNKNOWN: "No run failed, but one is not known to have passed.",
}
_SHOWN = {
    "tokens_per_s_per_gpu": ("Throughput", "tokens/s/GPU", "tokens/s/GPU"),
    "step_time_s": ("Step time", "s", "step, s"),
    "memory_peak_gib": ("Peak memory", "GiB", "memory, GiB"),
}
"""Each metric's name, its unit, and what a column of it is called."""
_NAMED = 4
"""Hosts that are named where several say the same."""


def fleet_page(judged: FleetVerdict, linked: bool) -> Page:
    """A row a host; `linked` to the runs' own reports where they have one."""
    members, count = judged.members, len(judged.members)
    passed = sum(member.verdict is not None and member.verdict.status == Status.PASS for member in members)
    first = next((member.run.manifest for member in members if member.run), None)
    title, made_by = unstamped(judged.fleet.directory.resolve().name), []
    if first:
        title, made_by = f"{first.experiment.name} on {first.platform.name}", [shlex.join(first.provenance.command)]
    return Page(
        kind="fleet",
        title=f"{title}, {count} hosts",
        verdict=judged.status.value,
        tone=TONE_OF[judged.status],
        sentence=_SENTENCE[judged.status],
        reasons=[*_reasons(members), *(outlier.words for outlier in judged.outliers)],
        tiles=[
            Tile("Runs", f"{passed} of {count}", "passed", "one a host", TONE_OF[judged.status]),
            _outliers_tile(judged),
            *(_tile(judged, metric) for metric in METRICS),
        ],
        charts=[],
        tables=[_hosts(judged, linked), *_preflight(judged)],
        commands=[*made_by, f"steelyard check {shlex.quote(str(judged.fleet.directory))}"],
    )


def why(member: Member) -> str | None:
    """Why a run did not pass; None where it did."""
    reason = _why(member)
    return None if reason is None else f"{member.host}: {reason[1]}"


def _why(member: Member) -> tuple[str, str] | None:
    """The same without its host: in a word, which the status beside it may be, and in a sentence."""
    if member.run is None or member.verdict is None:
        return "", "it never began"
    if member.verdict.status == Status.PASS:
        return None
    if (failure := member.run.manifest.failure) is not None:
        phase = f" (in {failure.phase})" if failure.phase else ""
        return failure.kind, f"{failure.kind}: {failure.message}{phase}"
    finding = (*member.verdict.failed(), *member.verdict.undecided())[0]
    return finding.check, f"{finding.check}: {finding.message}"


def _reasons(members: Sequence[Member]) -> list[str]:
    """Why runs did not pass; hosts that say the same in one sentence."""
    hosts: dict[str, list[str]] = {}
    for member in members:
        if (reason := _why(member)) is not None:
            hosts.setdefault(reason[1], []).append(member.host)
    return [f"{_few(named)}: {sentence}" for sentence, named in hosts.items()]


def _few(hosts: Sequence[str]) -> str:
    if len(hosts) <= _NAMED:
        return ", ".join(hosts)
    return f"{', '.join(hosts[: _NAMED - 1])} and {len(hosts) - _NAMED + 1} more"


def _outliers_tile(judged: FleetVerdict) -> Tile:
    completed, odd = sum(member.completed for member in judged.members), {row.host for row in judged.outliers}
    if completed < LEAST_RUNS:
        return Tile("Outliers", "unknown", "", f"{LEAST_RUNS} completed runs tell them, and there are {completed}")
    unlike = f"more than 3.5 robust z and 5 % from the median of {completed} completed runs"
    return Tile("Outliers", str(len(odd)), f"host{'s' * (len(odd) != 1)}", unlike, Tone.UNSURE if odd else Tone.PLAIN)


def _tile(judged: FleetVerdict, metric: str) -> Tile:
    name, unit, _ = _SHOWN[metric]
    verdicts = [member.verdict for member in judged.members if member.completed and member.verdict]
    values = [value for verdict in verdicts if (value := verdict.figures.metric(metric).value) is not None]
    if not values:
        return Tile(name, "unknown", "", "no run gives it", Tone.UNSURE)
    note = f"median of those completed; {number(min(values))} to {number(max(values))}"
    return Tile(name, number(statistics.median(values)), unit, note)


def _hosts(judged: FleetVerdict, linked: bool) -> Table:
    columns = ["host", "verdict", "status", "steps", *(_SHOWN[metric][2] for metric in METRICS), "note"]
    rows = []
    for entry, member in zip(judged.fleet.manifest.runs, judged.members, strict=True):
        path = judged.fleet.directory / entry.directory / f"report{html.SUFFIX}"
        place = f"{quote(entry.directory)}/report{html.SUFFIX}" if linked and path.is_file() else None
        again = entry.directory if entry.directory.startswith(f"{member.host}-") else ""
        host = Cell(member.host, href=place) if place else member.host
        rows.append([host, *_row(member, judged.outliers, again)])
    note = "Each figure on its run's steady window; one that stands out is marked."
    links = " A host is linked to its run's own report, if there is one."
    return Table("Hosts", columns, rows, note + links * linked)


def _preflight(judged: FleetVerdict) -> list[Table]:
    """What was wrong with hosts before the first run: nothing where nothing was, or they were not asked."""
    rows: list[list[str | Cell]] = [
        [
            finding.host or "this machine",
            Cell(finding.status, TONE_OF[Status(finding.status)]),
            finding.check,
            finding.message,
            "required" if finding.required else "",
            finding.fix or "",
        ]
        for finding in judged.fleet.manifest.preflight
    ]
    columns = ["host", "finding", "check", "what was found", "weight", "fix"]
    note = "All hosts were asked before the first run, each judged by itself and against the others."
    return [Table("Preflight", columns, rows, note)] if rows else []


def _row(member: Member, outliers: Sequence[Outlier], again: str) -> list[str | Cell]:
    """All but the host; `again` is the directory of a run that took an earlier one's place."""
    odd = {outlier.metric: outlier for outlier in outliers if outlier.host == member.host}
    status = member.verdict.status if member.verdict else Status.UNKNOWN
    values = {metric: member.verdict.figures.metric(metric).value if member.verdict else None for metric in METRICS}
    figures = {metric: "" if value is None else number(value) for metric, value in values.items()}
    marks = [f"{_SHOWN[metric][0].lower()} {outlier.share:+.1%}" for metric, outlier in odd.items()]
    reason, _ = _why(member) or ("", "")
    words = (reason, f"outlier: {', '.join(marks)}" if marks else "", f"run {again}" if again else "")
    return [
        Cell(status.value, TONE_OF[status]),
        member.run.status if member.run else "not begun",
        str(member.run.num_steps) if member.run else "",
        *(Cell(figure, Tone.UNSURE) if figure and metric in odd else figure for metric, figure in figures.items()),
        "; ".join(filter(None, words)),
    ]
