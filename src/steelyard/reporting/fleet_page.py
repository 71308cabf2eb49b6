"""The report of a fleet."""

import shlex
import statistics
from collections.abc import Sequence
from urllib.parse import quote

from steelyard import __version__
from steelyard.campaign.fleet_verdict import LEAST_RUNS, METRICS, FleetVerdict, Member
from steelyard.records import unstamped
from steelyard.records.fleet import Outlier
from steelyard.reporting import html
from steelyard.reporting.curves import number
from steelyard.reporting.page import Cell, Page, Table, Tile, Tone
from steelyard.reporting.run_page import TONE_OF
from steelyard.verdict import Status, Verdict

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
    passed = sum(one.verdict is not None and one.verdict.status == Status.PASS for one in judged.members)
    count = len(judged.members)
    first = next((one.run.manifest for one in judged.members if one.run), None)
    name = judged.fleet.directory.resolve().name
    title = f"{first.experiment.name} on {first.platform.name}" if first else unstamped(name)
    return Page(
        kind="fleet",
        title=f"{title}, {count} hosts",
        verdict=judged.status.value,
        tone=TONE_OF[judged.status],
        sentence=_SENTENCE[judged.status],
        reasons=[*_reasons(judged.members), *(one.words for one in judged.outliers)],
        tiles=[
            Tile("Runs", f"{passed} of {count}", "passed", "one a host", TONE_OF[judged.status]),
            _outliers_tile(judged),
            *(_tile(judged, metric) for metric in METRICS),
        ],
        charts=[],
        tables=[_hosts(judged, linked), *_preflight(judged)],
        commands=[
            *([shlex.join(first.provenance.command)] if first else []),
            f"steelyard check {shlex.quote(str(judged.fleet.directory))}",
        ],
        made_by=f"steelyard {__version__}",
    )


def why(member: Member) -> str | None:
    """Why a run did not pass; None where it did."""
    told = _why(member)
    return None if told is None else f"{member.host}: {told[1]}"


def _why(member: Member) -> tuple[str, str] | None:
    """The same without its host: in a word, which the status beside it may be, and in a sentence."""
    if member.run is None or member.verdict is None:
        return "", "it never began"
    if member.verdict.status == Status.PASS:
        return None
    if (failure := member.run.manifest.failure) is not None:
        phase = f" (in {failure.phase})" if failure.phase else ""
        return failure.kind, f"{failure.kind}: {failure.message}{phase}"
    found = (*member.verdict.failed(), *member.verdict.undecided())[0]
    return found.check, f"{found.check}: {found.message}"


def _reasons(members: Sequence[Member]) -> list[str]:
    """Why runs did not pass; hosts that say the same in one sentence."""
    hosts: dict[str, list[str]] = {}
    for member in members:
        if (told := _why(member)) is not None:
            hosts.setdefault(told[1], []).append(member.host)
    return [f"{_few(named)}: {sentence}" for sentence, named in hosts.items()]


def _few(hosts: Sequence[str]) -> str:
    if len(hosts) <= _NAMED:
        return ", ".join(hosts)
    return f"{', '.join(hosts[: _NAMED - 1])} and {len(hosts) - _NAMED + 1} more"


def _outliers_tile(judged: FleetVerdict) -> Tile:
    completed, odd = sum(one.completed for one in judged.members), {one.host for one in judged.outliers}
    if completed < LEAST_RUNS:
        return Tile("Outliers", "unknown", "", f"{LEAST_RUNS} completed runs tell them, and there are {completed}")
    unlike = f"more than 3.5 robust z and 5 % from the median of {completed} completed runs"
    return Tile("Outliers", str(len(odd)), f"host{'s' * (len(odd) != 1)}", unlike, Tone.UNSURE if odd else Tone.PLAIN)


def _tile(judged: FleetVerdict, metric: str) -> Tile:
    name, unit, _ = _SHOWN[metric]
    values = [
        value
        for one in judged.members
        if one.completed and one.verdict and (value := one.verdict.figures.metric(metric).value) is not None
    ]
    if not values:
        return Tile(name, "unknown", "", "no run gives it", Tone.UNSURE)
    return Tile(
        name,
        number(statistics.median(values)),
        unit,
        f"median of those completed; {number(min(values))} to {number(max(values))}",
    )


def _hosts(judged: FleetVerdict, linked: bool) -> Table:
    columns = ["host", "verdict", "status", "steps", *(_SHOWN[metric][2] for metric in METRICS), "note"]
    entries = zip(judged.fleet.manifest.runs, judged.members, strict=True)
    rows = []
    for entry, member in entries:
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
            one.host or "this machine",
            Cell(one.status, TONE_OF[Status(one.status)]),
            one.check,
            one.message,
            "required" if one.required else "",
            one.fix or "",
        ]
        for one in judged.fleet.manifest.preflight
    ]
    note = "All hosts were asked before the first run, each judged by itself and against the others."
    return [Table("Preflight", ["host", "finding", "check", "what was found", "weight", "fix"], rows, note)] * bool(
        rows
    )


def _row(member: Member, outliers: Sequence[Outlier], again: str) -> list[str | Cell]:
    """All but the host; `again` is the directory of a run that took an earlier one's place."""
    odd = {one.metric: one for one in outliers if one.host == member.host}
    status = member.verdict.status if member.verdict else Status.UNKNOWN
    marks = [f"{_SHOWN[one.metric][0].lower()} {one.share:+.1%}" for one in odd.values()]
    told = _why(member)
    words = (told[0] if told else "", f"outlier: {', '.join(marks)}" if marks else "", f"run {again}" if again else "")
    return [
        Cell(status.value, TONE_OF[status]),
        member.run.status if member.run else "not begun",
        str(member.run.num_steps) if member.run else "",
        *(_figure(member.verdict, metric, metric in odd) for metric in METRICS),
        "; ".join(word for word in words if word),
    ]


def _figure(verdict: Verdict | None, metric: str, odd: bool) -> str | Cell:
    value = verdict.figures.metric(metric).value if verdict else None
    if value is None:
        return ""
    return Cell(number(value), Tone.UNSURE) if odd else number(value)
