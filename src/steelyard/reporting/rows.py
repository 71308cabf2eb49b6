"""The figures of a report as data: a row per cell and metric of a comparison, a row per run and metric otherwise."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from steelyard.comparison import NAME_OF, Metric
from steelyard.comparison.headline import short
from steelyard.comparison.ratios import FIGURE_OF
from steelyard.experiment.thresholds import METRICS
from steelyard.reporting.paper.cells import Cell, Cells
from steelyard.reporting.paper.run import JudgedCell, JudgedCells
from steelyard.reporting.sides import last_loss

Row = Mapping[str, Any]
"""Texts and numbers; a missing key is an empty cell."""

_OF_COMPARISON = (
    "metric", "ratio_name", "target_value", "baseline_value", "ratio", "low", "high", "level", "interval",
    "target_runs", "baseline_runs", "status", "outcome", "words", "reason",
)  # fmt: skip
_OF_RUN = ("run", "metric", "value", "status", "words")


@dataclass(frozen=True, slots=True)
class Rows:
    columns: Sequence[str]
    rows: Sequence[Row]


def comparison_rows(made: Cells) -> Rows:
    rows: list[Row] = []
    sides = dict(zip(("target", "baseline"), made.names, strict=True))
    for metric in NAME_OF:
        rows += [{**sides, **cell.values, "cell": cell.label, **_ratio(cell, metric)} for cell in made.cells]
        if (mean := made.means[metric]) is not None:
            figures = {name: getattr(mean, name) for name in ("low", "high", "level", "words")}
            named = {"cell": "geometric mean", "metric": metric.value, "ratio_name": NAME_OF[metric], **sides}
            rows.append({**named, "ratio": mean.value, "interval": "cells", "outcome": mean.outcome.value, **figures})
    if Metric.CONVERGENCE in made.asked:
        rows += [{**sides, **cell.values, "cell": cell.label, **_convergence(cell)} for cell in made.cells]
    return Rows(["cell", *sides, *made.axes, *_OF_COMPARISON], rows)


def _ratio(cell: Cell, metric: Metric) -> Row:
    named: dict[str, Any] = {"metric": metric.value, "ratio_name": NAME_OF[metric]}
    for name, side in cell.named:
        named |= {f"{name}_value": side.mean(FIGURE_OF[metric]), f"{name}_runs": len(side.subjects)}
    if cell.comparison is None:
        absent = [side.absent for side in cell.sides if side.absent is not None]
        words = "; ".join(f"{name} {side.absent.words}" for name, side in cell.named if side.absent is not None)
        return {**named, "status": absent[0].absence.value, "words": words}
    ruling, ratio = cell.comparison.comparable[metric], cell.ratio(metric)
    named["status"] = ruling.status.value
    if ratio is None:
        return {**named, "words": "not compared", "reason": short(ruling.reasons[0])}
    figures = {name: getattr(ratio, name) for name in ("low", "high", "level", "interval")}
    words = cell.adjusted[metric] or ratio.words
    return {**named, "ratio": ratio.value, **figures, "outcome": ratio.outcome.value, "words": words}


def _convergence(cell: Cell) -> Row:
    counts = {f"{name}_runs": len(side.subjects) for name, side in cell.named}
    status = cell.comparison.convergence.status if cell.comparison else "unknown"
    return {"metric": Metric.CONVERGENCE.value, **counts, "status": status, "words": status.replace("_", " ")}


def run_rows(judged: JudgedCells) -> Rows:
    rows = [{"cell": cell.label, **cell.values, **row} for cell in judged.cells for row in _of_cell(cell)]
    return Rows(["cell", *judged.axes, *_OF_RUN], rows)


def _of_cell(cell: JudgedCell) -> Iterator[Row]:
    if not cell.side.subjects:
        yield {"metric": "verdict", "status": "unknown", "words": cell.result}
    for subject, verdict in zip(cell.side.subjects, cell.verdicts, strict=True):
        named = {"run": subject.run.directory.resolve().name}
        for metric in METRICS:
            figure = verdict.figures.metric(metric)
            status = "unknown" if figure.value is None else "known"
            yield {**named, "metric": metric, "value": figure.value, "status": status, "words": figure.why}
        loss = last_loss(subject)
        yield {**named, "metric": "last_loss", "value": loss, "status": "unknown" if loss is None else "known"}
        yield {**named, "metric": "verdict", "status": verdict.status.value, "words": cell.result}
