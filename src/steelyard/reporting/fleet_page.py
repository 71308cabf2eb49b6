"""The report of a fleet."""

import shlex
import statistics
from collections.abc import Sequence
from urllib.parse import quote

from steelyard.campaign.fleet_verdict import LEAST_RUNS, LEAST_SHARE, METRICS, MOST_Z, SLOW_HOST, FleetVerdict, Member
from steelyard.files import place_of
from steelyard.records import unstamped
from steelyard.records.fleet import Outlier
from steelyard.reporting import html
from steelyard.reporting.curves import number, per_device
from steelyard.reporting.page import Cell, Chart, Dot, Level, Page, Plots, Table, Tile, Tiles, Tone
from steelyard.reporting.run_page import EXPANDED, TONE_OF
from steelyard.reporting.sides import subject_line
from steelyard.verdict import Status, Subject, read_subject

SHOWN = {
    "tokens_per_s_per_gpu": ("Throughput", "tokens/s per GPU"),
    "step_time_s": ("Step time", "s"),
    "memory_peak_gib": ("Peak memory", "GiB per GPU"),
    "tflops_per_gpu": ("Compute rate", "TFLOP/s per GPU"),
    "mfu": ("MFU", ""),
}
"""Each metric's name and unit."""
_MAX_NAMES = 4
"""Hosts that a sentence names."""
_MAX_LABELS = 12
"""Hosts that are named in the plot."""
_MIN_DOTS = 2


def fleet_page(judged: FleetVerdict, linked: bool) -> Page:
    """A row per host; `linked` to the reports of its runs, where there are any."""
    members, count = judged.members, len(judged.members)
    first = next((member.run for member in members if member.run), None)
    slow, subjects = slow_hosts(judged), [read_subject(first)] if first else []
    notable = [row.words for row in judged.outliers if row.host not in slow]
    made_by = [shlex.join(first.manifest.provenance.command)] if first else []
    return Page(
        kind="fleet",
        title=f"{unstamped(judged.fleet.directory.resolve().name)}, {count} host{'s' * (count != 1)}",
        subject=subject_line(subjects) if first else "",
        verdict=judged.status.value,
        tone=TONE_OF[judged.status],
        sentence=_sentence(judged, slow),
        reasons=[*_reasons(members), *notable],
        blocks=[
            Tiles("Figures", [_slow_tile(judged, slow), *(_tile(judged, metric, subjects) for metric in METRICS)]),
            *_strips(judged, slow, subjects),
            *_preflight(judged),
            _hosts(judged, linked, slow, subjects),
        ],
        commands=[*made_by, f"steelyard check {shlex.quote(place_of(judged.fleet.directory))}"],
        commands_note=EXPANDED,
    )


def shown(metric: str, subjects: Sequence[Subject]) -> tuple[str, str]:
    """Name and unit of a metric of these runs."""
    name, unit = SHOWN[metric]
    return name, per_device(unit, subjects)


def slow_hosts(judged: FleetVerdict) -> dict[str, Outlier]:
    """Hosts outside the threshold on the slow side, the slowest first."""
    slow: dict[str, Outlier] = {}
    for row in judged.outliers:
        if (row.metric == "tokens_per_s_per_gpu" and row.share < 0) or (row.metric == "step_time_s" and row.share > 0):
            slow.setdefault(row.host, row)
    return dict(sorted(slow.items(), key=lambda item: -abs(item[1].share)))


def _sentence(judged: FleetVerdict, slow: dict[str, Outlier]) -> str:
    statuses = [member.verdict.status if member.verdict else Status.UNKNOWN for member in judged.members]
    counts = {status: statuses.count(status) for status in (Status.PASS, Status.FAIL, Status.UNKNOWN)}
    words = {Status.PASS: "passed", Status.FAIL: "failed", Status.UNKNOWN: "unknown"}
    verdicts = ", ".join(f"{count} {words[status]}" for status, count in counts.items() if count)
    if not slow:
        none = "No slow host." if _completed(judged) >= LEAST_RUNS else ""
        return f"{verdicts} of {len(statuses)} hosts. {none}".strip()
    named = ", ".join(f"{host} ({_share(row)})" for host, row in list(slow.items())[:_MAX_NAMES])
    more = f" and {len(slow) - _MAX_NAMES} more" if len(slow) > _MAX_NAMES else ""
    return f"{len(slow)} slow host{'s' * (len(slow) != 1)}: {named}{more}. {verdicts} of {len(statuses)} hosts."


def _share(row: Outlier) -> str:
    name = SHOWN[row.metric][0].lower()
    return f"{name} {abs(row.share):.1%} {'above' if row.share > 0 else 'below'} the median"


def _completed(judged: FleetVerdict) -> int:
    return sum(member.completed for member in judged.members)


def _values(judged: FleetVerdict, metric: str) -> dict[str, float]:
    """By host, of the runs that completed."""
    completed = {member.host: member.verdict for member in judged.members if member.completed and member.verdict}
    values = {host: verdict.figures.metric(metric).value for host, verdict in completed.items()}
    return {host: value for host, value in values.items() if value is not None}


def _threshold(values: Sequence[float], slower: int) -> float:
    """Where a host becomes slow; `slower` is -1 where less is slower."""
    median = statistics.median(values)
    spread = statistics.median(abs(value - median) for value in values)
    return median + slower * max(LEAST_SHARE * abs(median), MOST_Z * spread / 0.6745)


def _strips(judged: FleetVerdict, slow: dict[str, Outlier], subjects: Sequence[Subject]) -> list[Plots]:
    """Every host as a dot, sorted, with the median and the threshold."""
    metrics = (("tokens_per_s_per_gpu", -1), ("step_time_s", 1))
    strips = [_strip(judged, slow, metric, slower, shown(metric, subjects)) for metric, slower in metrics]
    charts = [chart for chart in strips if chart is not None]
    return [Plots("Hosts, sorted", charts)] if charts else []


def _strip(
    judged: FleetVerdict, slow: dict[str, Outlier], metric: str, slower: int, words: tuple[str, str]
) -> Chart | None:
    values = sorted(_values(judged, metric).items(), key=lambda item: item[1] * -slower)
    if len(values) < _MIN_DOTS:
        return None
    failed = {member.host for member in judged.members if member.verdict and member.verdict.status == Status.FAIL}
    labels, short = list(slow)[:_MAX_LABELS], _short_names([host for host, _ in values])
    dots = [
        Dot(
            at,
            value,
            host,
            Tone.BAD if host in slow else Tone.NOTE,
            hollow=host in failed,
            kind=f"{'slow' if host in slow else 'other'} host{', check failed' if host in failed else ''}",
            named=host in labels,
            short=short[host],
        )
        for at, (host, value) in enumerate(values, start=1)
    ]
    name, unit = words
    levels = [Level("median", statistics.median(value for _, value in values))]
    if len(values) >= LEAST_RUNS:
        levels.append(Level(f"slow {'below' if slower < 0 else 'above'}", _threshold([v for _, v in values], slower)))
    rows = [[host, number(value), "slow" if host in slow else ""] for host, value in values]
    summary = (
        f"{len(values)} hosts, {number(values[0][1])} to {number(values[-1][1])}; slow: {', '.join(slow) or 'none'}."
    )
    table = Table(f"{name} in numbers", ["host", unit, "note"], rows, folded=True)
    return Chart(name, unit, summary, table, levels=levels, dots=dots, x_name="host, slowest first", minor=slower > 0)


def _short_names(hosts: Sequence[str]) -> dict[str, str]:
    """Host names without the domain that all of them share."""
    domains = {host.partition(".")[2] for host in hosts}
    named = not any(host.replace(".", "").isdigit() for host in hosts)
    return {host: host.partition(".")[0] if len(domains) == 1 and named else host for host in hosts}


def why(member: Member) -> str | None:
    """Why the run of a host did not pass; None where it did."""
    reason = _why(member)
    return None if reason is None else f"{member.host}: {reason[1]}"


def _why(member: Member) -> tuple[str, str] | None:
    """The same without its host: in one word and in a sentence."""
    if member.run is None or member.verdict is None:
        return "", "not started"
    if member.verdict.status == Status.PASS:
        return None
    if (failure := member.run.manifest.failure) is not None:
        phase = f" (in {failure.phase})" if failure.phase else ""
        return failure.kind, f"{failure.kind}: {failure.message}{phase}"
    finding = (*member.verdict.failed(), *member.verdict.undecided())[0]
    return finding.check, f"{finding.check}: {finding.message}"


def _reasons(members: Sequence[Member]) -> list[str]:
    """Why runs did not pass; hosts with the same reason share a sentence."""
    hosts: dict[str, list[str]] = {}
    for member in members:
        if (reason := _why(member)) is not None:
            hosts.setdefault(reason[1], []).append(member.host)
    return [f"{_few(named)}: {sentence}" for sentence, named in hosts.items()]


def _few(hosts: Sequence[str]) -> str:
    if len(hosts) <= _MAX_NAMES:
        return ", ".join(hosts)
    return f"{', '.join(hosts[: _MAX_NAMES - 1])} and {len(hosts) - _MAX_NAMES + 1} more"


def _slow_tile(judged: FleetVerdict, slow: dict[str, Outlier]) -> Tile:
    completed = _completed(judged)
    if completed < LEAST_RUNS:
        note = f"{completed} completed runs; at least {LEAST_RUNS} are needed"
        return Tile("Slow hosts", "unknown", "", note)
    note = f"{LEAST_SHARE:.0%} and {MOST_Z:g} robust z from the median of {completed} completed runs"
    return Tile("Slow hosts", str(len(slow)), f"of {completed}", note, Tone.UNSURE if slow else Tone.PLAIN)


def _tile(judged: FleetVerdict, metric: str, subjects: Sequence[Subject]) -> Tile:
    name, unit = shown(metric, subjects)
    values = list(_values(judged, metric).values())
    if not values:
        return Tile(name, "unknown", "", "not recorded by any completed run", Tone.UNSURE)
    low, high, middle = (number(figure(values), padded=True) for figure in (min, max, statistics.median))
    return Tile(name, middle, unit, f"median of the completed runs; {low} to {high}")


def _hosts(judged: FleetVerdict, linked: bool, slow: dict[str, Outlier], subjects: Sequence[Subject]) -> Table:
    heads = (", ".join(shown(metric, subjects)) for metric in METRICS)
    columns = ["host", "verdict", "status", "steps", *heads]
    entries = list(zip(judged.fleet.manifest.runs, judged.members, strict=True))
    entries.sort(key=lambda entry: _place(entry[1], list(slow)))
    rows: list[list[str | Cell]] = []
    for entry, member in entries:
        path = judged.fleet.directory / entry.directory / f"report{html.SUFFIX}"
        place = f"{quote(entry.directory)}/report{html.SUFFIX}" if linked and path.is_file() else None
        again = entry.directory if entry.directory.startswith(f"{member.host}-") else ""
        remark = _remark(member, judged.outliers, again, member.host in slow)
        rows.append([Cell(member.host, href=place, note=remark), *_row(member, judged.outliers)])
    note = (
        "Failed hosts first, then slow ones. Figures are those of the steady window of each run; outliers are marked."
    )
    links = " A host links to the report of its run, if there is one."
    return Table("Hosts", columns, rows, note + links * linked)


def _place(member: Member, slow: Sequence[str]) -> tuple[int, int]:
    """Hosts that failed another check first, then slow ones with the slowest first, unknown ones, and all others."""
    status = member.verdict.status if member.verdict else Status.UNKNOWN
    if member.verdict and any(finding.code is not SLOW_HOST for finding in member.verdict.failed()):
        return 0, 0
    if member.host in slow:
        return 1, slow.index(member.host)
    return (2, 0) if status == Status.UNKNOWN else (3, 0)


def _preflight(judged: FleetVerdict) -> list[Table]:
    """What preflight found before the first run; nothing where all hosts passed or it did not run."""
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
    columns = ["host", "result", "check", "finding", "weight", "fix"]
    note = "Preflight checked all hosts before the first run, each alone and compared with the others."
    return [Table("Preflight", columns, rows, note)] if rows else []


def _remark(member: Member, outliers: Sequence[Outlier], again: str, slow: bool) -> str:
    """What is unusual about a host; `again` is the directory of a run that replaced an earlier one."""
    marks = [f"{SHOWN[row.metric][0].lower()} {row.share:+.1%}" for row in outliers if row.host == member.host]
    reason, _ = _why(member) or ("", "")
    outlier = f"{'slow' if slow else 'outlier'}: {', '.join(marks)}" if marks else ""
    return "; ".join(filter(None, (reason, outlier, f"run {again}" if again else "")))


def _row(member: Member, outliers: Sequence[Outlier]) -> list[str | Cell]:
    """All cells after the host."""
    odd = {outlier.metric for outlier in outliers if outlier.host == member.host}
    status = member.verdict.status if member.verdict else Status.UNKNOWN
    values = {metric: member.verdict.figures.metric(metric).value if member.verdict else None for metric in METRICS}
    figures = {metric: "" if value is None else number(value, padded=True) for metric, value in values.items()}
    return [
        Cell(status.value, TONE_OF[status]),
        member.run.status if member.run else "not started",
        str(member.run.num_steps) if member.run else "",
        *(Cell(figure, Tone.UNSURE) if figure and metric in odd else figure for metric, figure in figures.items()),
    ]
