"""The paper of a run, or of the cells of a suite with their verdicts."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from steelyard.campaign.suite_comparison import Absence, SideOfCell
from steelyard.campaign.suite_verdict import CellStatus, CellVerdict, SuiteVerdict
from steelyard.comparison import Metric
from steelyard.comparison.phrases import figure, listed, plural
from steelyard.records import Run, unstamped
from steelyard.reporting.claims import open_findings
from steelyard.reporting.curves import per_device
from steelyard.reporting.figures import Drawing, figure_name
from steelyard.reporting.page import Page, WaterfallPlot, as_sentence, typeset
from steelyard.reporting.paper import (
    ABSTRACT,
    Block,
    Bullets,
    Paper,
    PaperFigure,
    PaperTable,
    Paragraph,
    Ref,
    Section,
    listed_refs,
    methods,
)
from steelyard.reporting.paper.cells import Group, SideCell, Values, axis_title, by_title, short_labels
from steelyard.reporting.paper.drawings import bars, scaled, scaling_blocks
from steelyard.reporting.paper.results import CAPTIONS, capital, side_text
from steelyard.reporting.paper.setup import Column, distinct, model_names, platform_words, setup_blocks
from steelyard.reporting.sides import last_loss
from steelyard.verdict import Subject, Verdict

_MOST_LIMITS, _MOST_NAMED = 12, 3
_ABSENT = {CellStatus.OOM: Absence.OOM, CellStatus.SKIPPED: Absence.SKIPPED, CellStatus.MISSING: Absence.MISSING}
_TITLES = ("Loss", "Throughput")
"""Plots of a single run that a paper has."""


@dataclass(frozen=True, slots=True)
class JudgedCell:
    """A cell with its runs."""

    label: str
    """What distinguishes it from the other cells; the name of a run."""
    values: Values
    """By axis; empty for a run."""
    platform: str
    """What its column of the setup is called."""
    side: SideCell
    verdicts: Sequence[Verdict]
    result: str
    """The verdict of all its runs, in a word."""


@dataclass(frozen=True, slots=True)
class JudgedCells:
    """What a paper is about: a run, or the cells of a suite."""

    name: str
    cells: Sequence[JudgedCell]
    verdict: str
    """The verdict of all cells, in a sentence."""
    axes: Sequence[str]
    banner: str
    commands: Sequence[str]
    drawings: Mapping[str, Drawing]
    """The plots of the page, by title."""

    @property
    def subjects(self) -> list[Subject]:
        return [subject for cell in self.cells for subject in cell.side.subjects]

    @property
    def groups(self) -> list[Group]:
        return [Group(self.name, [cell.side for cell in self.cells])]

    @property
    def only(self) -> JudgedCell | None:
        return self.cells[0] if len(self.cells) == 1 else None


def judged_run(subject: Subject, verdict: Verdict, page: Page) -> JudgedCells:
    name, side = page.title, SideCell((subject,))
    cell = JudgedCell(name, {}, name, side, (verdict,), verdict.status.value)
    return JudgedCells(name, (cell,), page.sentence, (), page.banner, page.commands, by_title(page))


def judged_cells(judged: SuiteVerdict, page: Page, read: Callable[[Run], Subject]) -> JudgedCells:
    name, cells = unstamped(judged.suite.name), judged.cells
    labels = short_labels([cell.cell.values for cell in cells])
    return JudgedCells(
        name=name,
        cells=[_cell(cell, label, name, read) for cell, label in zip(cells, labels, strict=True)],
        verdict=page.sentence,
        axes=judged.suite.manifest.axes,
        banner=page.banner,
        commands=page.commands,
        drawings={title: each for title, each in by_title(page).items() if isinstance(each, WaterfallPlot)},
    )


def _cell(judged: CellVerdict, label: str, suite: str, read: Callable[[Run], Subject]) -> JudgedCell:
    cell, absence = judged.cell, _ABSENT.get(judged.status)
    absent = SideOfCell(absence, cell.planned_gib, cell.available_gib) if absence else None
    side = SideCell([read(run.run) for run in judged.runs if run.run is not None], absent)
    expected = " (as declared)" if judged.is_expected else ""
    verdicts = list(judged.verdicts())
    return JudgedCell(label, cell.values, cell.platform or suite, side, verdicts, f"{judged.status.words}{expected}")


def run_paper(judged: JudgedCells) -> Paper:
    models = listed(model_names(judged.subjects) or ["a model"])
    return Paper(
        name=figure_name(judged.name),
        title=f"Training {models}: {judged.name}",
        subject=_where(judged),
        sections=[
            Section(ABSTRACT, "Abstract", [Paragraph([" ".join(_abstract(judged, models))])]),
            Section("introduction", "Introduction", list(_introduction(judged, models))),
            Section("setup", "Experimental setup", setup_blocks(_columns(judged))),
            Section("results", "Results", list(_results(judged))),
            Section("limitations", "Limitations", list(_limitations(judged))),
            methods.methods_section(methods.RATES, methods.MEMORY, methods.FLOPS),
            methods.reproduction_section(judged.commands),
        ],
        banner=judged.banner,
    )


def values_of(judged: JudgedCells) -> dict[str, str]:
    """What the placeholders of a user's text stand for."""
    subjects = judged.subjects
    return {
        "name": judged.name,
        "platform": _where(judged),
        "model": listed(model_names(subjects) or ["a model"]),
        "precision": distinct(subject.precision for subject in subjects),
        "cells": str(len(judged.cells)),
        "runs": str(len(subjects)),
        "verdict": judged.verdict,
    }


def _columns(judged: JudgedCells) -> list[Column]:
    """A column per platform."""
    names = dict.fromkeys(cell.platform for cell in judged.cells)
    return [
        Column(name, [subject for cell in judged.cells if cell.platform == name for subject in cell.side.subjects])
        for name in names
    ]


def _where(judged: JudgedCells) -> str:
    platforms = dict.fromkeys(platform_words(column.subjects) for column in _columns(judged) if column.subjects)
    return listed([*platforms] or [judged.name])


def _abstract(judged: JudgedCells, models: str) -> Iterator[str]:
    many = "" if judged.only else f" in {len(judged.cells)} cells"
    yield f"We report the training of {models} on {_where(judged)}{many}."
    yield from _answers(judged)
    yield as_sentence(typeset(judged.verdict))


def _answers(judged: JudgedCells) -> Iterator[str]:
    """The figures of a run, or their range over cells."""
    texts = [
        _over(judged, "tokens_per_s_per_gpu", "It trains at {} tokens/s per GPU"),
        _over(judged, "mfu", "a model FLOPs utilization of {}%", 100.0),
        _over(judged, "memory_peak_gib", "a peak memory of {} GiB per GPU"),
    ]
    if texts[0]:
        known = [text for text in texts[1:] if text]
        yield per_device(f"{texts[0]}{f', with {listed(known)}' if known else ''}.", judged.subjects)
    for cell in judged.cells:
        if cell.side.absent is not None:
            yield f"{capital(cell.label)}: {cell.side.absent.words}."


def _over(judged: JudgedCells, metric: str, words: str, scale: float = 1.0) -> str:
    values = [value * scale for cell in judged.cells if (value := cell.side.mean(metric)) is not None]
    if not values:
        return ""
    low, high = figure(min(values)), figure(max(values))
    return words.format(low if low == high else f"{low} to {high}")


def _introduction(judged: JudgedCells, models: str) -> Iterator[Block]:
    yield Paragraph(
        [
            f"This paper reports how {models} trains: its speed, its memory, its share of the peak rate of the GPUs, "
            "and its loss. Every run was checked against physics, its thresholds and its plan. All figures are "
            "computed by one method from the records."
        ]
    )
    if judged.axes:
        axes = [
            f"{axis_title(axis).lower()} ({distinct(str(cell.values.get(axis)) for cell in judged.cells)})"
            for axis in judged.axes
        ]
        yield Paragraph([f"The suite has {plural(len(judged.cells), 'cell')}, which differ in {listed(axes)}."])


def _results(judged: JudgedCells) -> Iterator[Block]:
    drawn = list(_figures(judged))
    table = _table(judged)
    refs = listed_refs([Ref("Figure", block.label) for block in drawn])
    figures = [" ", *refs, " show them." if len(drawn) > 1 else " shows them."] if drawn else []
    verdict = as_sentence(typeset(judged.verdict))
    yield Paragraph([f"{verdict} ", Ref("Table", table.label), " lists the figures.", *figures])
    yield table
    yield from drawn
    yield from scaling_blocks(scaled(judged.groups, [cell.values for cell in judged.cells]))


def _figures(judged: JudgedCells) -> Iterator[PaperFigure]:
    if judged.only is not None:
        drawn = [judged.drawings[title] for title in _TITLES if title in judged.drawings]
        yield from (PaperFigure(f"{drawing.title} by step.", drawing) for drawing in drawn)
    falls = [drawing for drawing in judged.drawings.values() if isinstance(drawing, WaterfallPlot)]
    yield from (PaperFigure(drawing.summary, drawing) for drawing in falls)
    metrics = [Metric.FLOPS] if judged.only else [Metric.THROUGHPUT, Metric.MEMORY, Metric.FLOPS]
    for metric in metrics:
        if (chart := bars(metric, [cell.label for cell in judged.cells], judged.groups)) is not None:
            yield PaperFigure(CAPTIONS[metric], chart)


def _table(judged: JudgedCells) -> PaperTable:
    heads = ["Tokens/s per GPU", "Memory, GiB (share)", "MFU (TFLOP/s)", "Last loss", "Runs", "Verdict"]
    rows = [
        [
            cell.label,
            *(side_text(cell.side, metric) for metric in (Metric.THROUGHPUT, Metric.MEMORY, Metric.FLOPS)),
            _last_losses(cell.side.subjects),
            str(len(cell.side.subjects)),
            cell.result,
        ]
        for cell in judged.cells
    ]
    notes = [
        f"{capital(cell.label)}: {cell.side.absent.words}." for cell in judged.cells if cell.side.absent is not None
    ]
    caption = "Throughput, peak memory with its share of the memory of the GPU, MFU and last loss."
    return PaperTable(
        "results", per_device(caption, judged.subjects), ["Cell" if judged.axes else "Run", *heads], rows, notes, (0,)
    )


def _last_losses(subjects: Sequence[Subject]) -> str:
    losses = [last_loss(subject) for subject in subjects]
    known = [loss for loss in losses if loss is not None]
    return f"{sum(known) / len(known):.4g}" if known and len(known) == len(losses) else "not recorded"


def _limitations(judged: JudgedCells) -> Iterator[Block]:
    named = [
        (cell.label if len(cell.verdicts) == 1 else f"{cell.label} ({verdict.run.name})", verdict)
        for cell in judged.cells
        for verdict in cell.verdicts
    ]
    limits = [
        as_sentence(typeset(f"`{finding.check}` {finding.word} for {_who(labels, len(named))}: {finding.message}"))
        for finding, labels in open_findings(named, with_optional=True).items()
    ]
    limits += list(_few_runs(judged))
    yield Bullets(limits[:_MOST_LIMITS])
    if len(limits) > _MOST_LIMITS:
        yield Paragraph([f"The HTML report lists {plural(len(limits) - _MOST_LIMITS, 'further limit')}."])


def _who(labels: Sequence[str], count: int) -> str:
    if len(labels) <= _MOST_NAMED:
        return listed(labels)
    return f"all {count} runs" if len(labels) == count else f"{len(labels)} of {count} runs"


def _few_runs(judged: JudgedCells) -> Iterator[str]:
    if any(len(cell.side.subjects) == 1 for cell in judged.cells):
        yield "A single run is an observation: another run of the same job may differ."
    if len({host for subject in judged.subjects for host in subject.run.manifest.hosts}) == 1:
        yield "All runs used one host; other hosts may differ."
