"""The report of a suite: its cells with their results."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from steelyard.campaign.suite_verdict import CellRun, CellStatus, CellVerdict, SuiteVerdict
from steelyard.campaign.waterfall import waterfall
from steelyard.comparison.intervals import geometric_mean
from steelyard.experiment.cells import label_of
from steelyard.files import place_of
from steelyard.records import Run, unstamped
from steelyard.records.suite import Suite
from steelyard.reporting import html
from steelyard.reporting.curves import number
from steelyard.reporting.fleet_page import SHOWN, shown
from steelyard.reporting.page import Answer, Cell, Chart, Dot, Page, Plots, Table, Tile, Tiles, Tone
from steelyard.reporting.run_page import EXPANDED, TONE_OF
from steelyard.reporting.sides import subject_line
from steelyard.reporting.waterfall_blocks import answer, blocks
from steelyard.verdict import Subject, read_subject

METRICS = ("tokens_per_s_per_gpu", "mfu", "step_time_s", "memory_peak_gib")
TONES = {
    CellStatus.PASS: Tone.GOOD,
    CellStatus.FAIL: Tone.BAD,
    CellStatus.LOST: Tone.BAD,
    CellStatus.OOM: Tone.BAD,
    CellStatus.SKIPPED: Tone.NOTE,
}
_MAX_NAMED = 4
"""Cells that a sentence names."""
_MAX_LABELS = 16
"""Cells that a plot names."""


def suite_page(judged: SuiteVerdict, linked: bool, target: Sequence[Run] | None = None) -> Page:
    """A row per cell; `linked` to the reports of its runs, where there are any.

    `target` are the runs of a ladder's target, in place of those that the ladder names.
    """
    suite = judged.suite
    fall = waterfall(judged, target) if suite.manifest.ladder else None
    subjects = _first_subjects(judged)
    made_by = list(dict.fromkeys(shlex.join(subject.run.manifest.provenance.command) for subject in subjects))
    return Page(
        kind="suite",
        title=f"{unstamped(suite.name)}, {_kind(suite, len(judged.cells))}",
        subject=subject_line(subjects),
        verdict=judged.status.value,
        tone=TONE_OF[judged.status],
        sentence=_sentence(judged),
        answers=[answer(fall), Answer(judged.status.value, TONE_OF[judged.status], _sentence(judged))] if fall else (),
        reasons=list(reasons(judged)),
        blocks=[
            Tiles("Figures", list(_tiles(judged, subjects))),
            *(blocks(fall, subjects) if fall else []),
            *_plots(judged, subjects),
            cells_table(judged, linked, subjects),
        ],
        commands=[*made_by[:1], f"steelyard check {shlex.quote(place_of(suite.directory))}"],
        commands_note=EXPANDED,
    )


def _kind(suite: Suite, cells: int) -> str:
    ladder = suite.manifest.ladder
    return f"{cells} cells" if ladder is None else f"ladder from {ladder.baseline} to {ladder.target}"


def _first_subjects(judged: SuiteVerdict) -> list[Subject]:
    """The first run of the suite, and of each platform."""
    first: dict[str | None, Run] = {}
    for cell in judged.cells:
        for run in cell.runs:
            if run.run is not None:
                first.setdefault(cell.cell.platform, run.run)
    return [read_subject(run) for run in first.values()]


def _sentence(judged: SuiteVerdict) -> str:
    counts = ", ".join(f"{count} {status.words}" for status, count in judged.counts().items())
    declared = [cell for cell in judged.cells if cell.is_expected]
    return f"{len(judged.cells)} cells: {counts}{f' ({len(declared)} as declared)' if declared else ''}."


def name_of(cell: CellVerdict) -> str:
    """`llama3.1-8b, micro batch 4, h100`."""
    return ", ".join(label_of(axis, value) for axis, value in cell.cell.values.items()) or cell.cell.name


def remark(cell: CellVerdict) -> str:
    """Why a cell did not pass, or what memory it needs."""
    if cell.status in (CellStatus.OOM, CellStatus.SKIPPED):
        needs, has = cell.cell.planned_gib, cell.cell.available_gib
        plan = "" if needs is None else f"plan {number(needs, 4)} GiB per GPU"
        limit = "" if has is None or needs is None else f", available {number(has, 4)} GiB"
        return f"{plan}{limit}{'; as declared' if cell.is_expected else ''}"
    for run in cell.runs:
        if run.status != cell.status or cell.status == CellStatus.PASS or run.run is None or run.verdict is None:
            continue
        if (failure := run.run.manifest.failure) is not None:
            return f"{run.name}: {failure.kind}: {failure.message}"
        findings = (*run.verdict.failed(), *run.verdict.undecided())
        return f"{run.name}: {findings[0].check}: {findings[0].message}" if findings else ""
    return ""


def reasons(judged: SuiteVerdict) -> Sequence[str]:
    """One line per cell that did not pass; cells with the same reason share one."""
    names: dict[str, list[str]] = {}
    for cell in judged.cells:
        if cell.status not in (CellStatus.PASS, CellStatus.SKIPPED) and not cell.is_expected:
            why = remark(cell)
            names.setdefault(f"{cell.status.words} ({why})" if why else cell.status.words, []).append(name_of(cell))
    return [f"{_few(cells)}: {why}" for why, cells in names.items()]


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    return "; ".join(names[:_MAX_NAMED]) + more


def figures_of(cell: CellVerdict, metric: str) -> list[float]:
    """The figure of each run that ended by itself."""
    return [value for run in cell.runs if (value := _figure(run, metric)) is not None]


def _figure(run: CellRun, metric: str) -> float | None:
    if run.run is None or run.verdict is None or run.run.status not in ("completed", "ended"):
        return None
    return run.verdict.figures.metric(metric).value


def _tiles(judged: SuiteVerdict, subjects: Sequence[Subject]) -> Sequence[Tile]:
    tiles = [Tile("Cells", str(len(judged.cells)), "", f"{sum(len(cell.runs) for cell in judged.cells)} runs planned")]
    for metric in ("tokens_per_s_per_gpu", "mfu", "memory_peak_gib"):
        values = [value for cell in judged.cells for value in figures_of(cell, metric)]
        name, unit = shown(metric, subjects)
        if metric == "mfu":
            values, unit = [100 * value for value in values], "%"
        if values:
            tiles.append(Tile(name, f"{number(min(values), 4)} to {number(max(values), 4)}", unit, "over all runs"))
    return tiles


def _plots(judged: SuiteVerdict, subjects: Sequence[Subject]) -> list[Plots]:
    charts = [
        chart
        for metric in ("tokens_per_s_per_gpu", "mfu", "memory_peak_gib")
        if (chart := _chart(judged, metric, subjects)) is not None
    ]
    return [Plots("Plots by cell", charts)] if charts else []


def _chart(judged: SuiteVerdict, metric: str, subjects: Sequence[Subject]) -> Chart | None:
    """Every run as a dot above its cell."""
    name, unit = shown(metric, subjects)
    names = list(map(name_of, judged.cells))
    dots = [
        Dot(at, value, f"{names[at - 1]}, {run.name}", Tone.BAD if run.status == CellStatus.FAIL else Tone.NOTE)
        for at, cell in enumerate(judged.cells, start=1)
        for run in cell.runs
        if (value := _figure(run, metric)) is not None
    ]
    if not dots:
        return None
    rows = [[names[dot.x - 1], number(dot.y)] for dot in dots]
    low, high = min(dots, key=lambda dot: dot.y), max(dots, key=lambda dot: dot.y)
    summary = f"{number(low.y)} ({low.name}) to {number(high.y)} ({high.name})."
    table = Table(f"{name} in numbers", ["cell", unit or metric], rows, folded=True)
    x_names = names if len(names) <= _MAX_LABELS else ()
    return Chart(name, unit, summary, table, dots=dots, x_name="cell", x_names=x_names)


def cells_table(judged: SuiteVerdict, linked: bool, subjects: Sequence[Subject]) -> Table:
    axes = list(dict.fromkeys(axis for cell in judged.cells for axis in cell.cell.values))
    heads = [", ".join(filter(None, shown(metric, subjects))) for metric in METRICS]
    rows = [_row(judged, cell, axes, linked) for cell in judged.cells]
    note = "Figures are the geometric mean of the runs of a cell, in the steady window of each."
    return Table("Cells", [*axes, "result", *heads, "runs", "remark"], rows, note)


def _row(judged: SuiteVerdict, cell: CellVerdict, axes: Sequence[str], linked: bool) -> list[str | Cell]:
    values = [cell.cell.values.get(axis) for axis in axes]
    texts = ["" if value is None else f"{value:,}" if type(value) is int else str(value) for value in values]
    figures = [mean_text(figures_of(cell, metric), metric) for metric in METRICS]
    done = sum(run.run is not None for run in cell.runs)
    place = _report_of(judged.suite.directory, cell) if linked else None
    runs = "" if cell.cell.skipped else f"{done} of {len(cell.runs)}" if done < len(cell.runs) else str(done)
    tone = Tone.NOTE if cell.is_expected else TONES.get(cell.status, Tone.UNSURE)
    word = Cell(cell.status.words, tone, href=place)
    return [*texts, word, *figures, runs, remark(cell)]


def mean_text(values: Sequence[float], metric: str) -> str:
    """`7,754`, or `41.2%`; empty without a value."""
    if not values:
        return ""
    value = geometric_mean(values)
    return f"{value:.1%}" if SHOWN[metric][1] == "" else number(value, padded=True)


def _report_of(directory: Path, cell: CellVerdict) -> str | None:
    """The report of the first run that has one."""
    for run in cell.runs:
        place = f"{cell.cell.directory}/{run.name}/report{html.SUFFIX}"
        if (directory / place).is_file():
            return quote(place)
    return None
