"""The report of a fleet."""

import shlex
import statistics
from collections.abc import Sequence
from urllib.parse import quote

from steelyard import __version__
from steelyard.records import unstamped
from steelyard.records.fleet import Outlier
from steelyard.report import html
from steelyard.report.curves import number
from steelyard.report.page import Cell, Page, Table, Tile, Tone
from steelyard.report.run_page import TONE_OF
from steelyard.verdict import Status, Verdict
from steelyard.verdict.fleet import FleetVerdict, Member
from steelyard.verdict.outliers import LEAST_RUNS, METRICS

_SENTENCE = {
    Status.PASS: "Every run passed.",
    Status.FAIL: "A run failed.",
    Status.UNKNOWN: "No run failed, but one is not known to have passed.",
}
_SHOWN = {
    "tokens_per_s_per_gpu": ("Throughput", "tokens/s/GPU"),
    "step_time_s": ("Step time", "s"),
    "memory_peak_gib": ("Peak memory", "GiB"),
}


def fleet_page(judged: FleetVerdict, linked: bool) -> Page:
    """A row a host; `linked` to the runs' own reports where they have one."""
    passed = sum(one.verdict is not None and one.verdict.status == Status.PASS for one in judged.members)
    count, odd = len(judged.members), {one.host for one in judged.outliers}
    first = next((one.run.manifest for one in judged.members if one.run), None)
    name = judged.fleet.directory.resolve().name
    title = f"{first.experiment.get('name')} on {first.platform.name}" if first else unstamped(name)
    unlike = f"more than 3.5 robust z and 5 % from the median, of {LEAST_RUNS} or more completed runs"
    return Page(
        kind="fleet",
        title=f"{title}, {count} hosts",
        verdict=judged.status.value,
        tone=TONE_OF[judged.status],
        sentence=_SENTENCE[judged.status],
        reasons=[*(words for one in judged.members if (words := why(one))), *(one.words for one in judged.outliers)],
        tiles=[
            Tile("Runs", f"{passed} of {count}", "passed", "one a host", TONE_OF[judged.status]),
            Tile("Outliers", str(len(odd)), "hosts", unlike, Tone.UNSURE if odd else Tone.PLAIN),
            *(_tile(judged, metric) for metric in METRICS),
        ],
        charts=[],
        tables=[_hosts(judged, linked)],
        commands=[
            *([shlex.join(first.provenance.command)] if first else []),
            f"steelyard check {shlex.quote(str(judged.fleet.directory))}",
        ],
        made_by=f"steelyard {__version__}",
    )


def why(member: Member) -> str | None:
    """Why a run did not pass; None where it did."""
    if member.run is None or member.verdict is None:
        return f"{member.host}: it never began"
    if member.verdict.status == Status.PASS:
        return None
    if (failure := member.run.manifest.failure) is not None:
        return f"{member.host}: {failure.kind}: {failure.message}{f' (in {failure.phase})' if failure.phase else ''}"
    found = (*member.verdict.failed(), *member.verdict.undecided())[0]
    return f"{member.host}: {found.check}: {found.message}"


def _tile(judged: FleetVerdict, metric: str) -> Tile:
    name, unit = _SHOWN[metric]
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
    columns = [
        "host",
        "verdict",
        "status",
        "steps",
        *(f"{name.lower()}, {unit}" for name, unit in map(_SHOWN.__getitem__, METRICS)),
        "why",
        "run",
    ]
    entries = zip(judged.fleet.manifest.runs, judged.members, strict=True)
    rows = []
    for entry, member in entries:
        path = judged.fleet.directory / entry.directory / f"report{html.SUFFIX}"
        place = f"{quote(entry.directory)}/report{html.SUFFIX}" if linked and path.is_file() else None
        rows.append([*_row(member, judged.outliers), Cell(entry.directory, href=place) if place else entry.directory])
    return Table("Hosts", columns, rows, "Each figure on its run's steady window; one that stands out is marked.")


def _row(member: Member, outliers: Sequence[Outlier]) -> list[str | Cell]:
    odd = {one.metric: one for one in outliers if one.host == member.host}
    status = member.verdict.status if member.verdict else Status.UNKNOWN
    marks = [f"{_SHOWN[one.metric][0].lower()} {one.share:+.1%}" for one in odd.values()]
    reason = (why(member) or "").removeprefix(f"{member.host}: ")
    return [
        member.host,
        Cell(status.value, TONE_OF[status]),
        member.run.status if member.run else "not begun",
        str(member.run.num_steps) if member.run else "",
        *(_figure(member.verdict, metric, metric in odd) for metric in METRICS),
        "; ".join(word for word in (reason, f"outlier: {', '.join(marks)}" if marks else "") if word),
    ]


def _figure(verdict: Verdict | None, metric: str, odd: bool) -> str | Cell:
    value = verdict.figures.metric(metric).value if verdict else None
    if value is None:
        return ""
    return Cell(number(value), Tone.UNSURE) if odd else number(value)
