"""The four plots of training: loss, step time, throughput and memory, of one run or of several laid over each other."""

from collections.abc import Callable, Sequence

import numpy as np

from steelyard.records.columns import Column
from steelyard.report.page import Band, Chart, Level, Line, Table
from steelyard.report.thinning import thinned
from steelyard.verdict import Subject

_SAMPLES = 12

Curve = tuple[str, Subject]
"""A label, and the run it stands for."""


def curves(runs: Sequence[Curve]) -> list[Chart]:
    """Every plot whose figures at least one run gives."""
    charts = [
        _chart("Loss", "nats a token", runs, lambda subject: subject.steps.loss, _loss_levels(runs)),
        _chart("Step time", "s", runs, lambda subject: subject.steps.step_time_s, []),
        _chart("Throughput", "tokens/s/GPU", runs, _throughput, []),
        _chart("Memory", f"GiB{_kinds(runs)}", runs, lambda subject: subject.steps.memory_gib, _memory_levels(runs)),
    ]
    return [chart for chart in charts if chart is not None]


def _chart(
    title: str, unit: str, runs: Sequence[Curve], column_of: Callable[[Subject], Column], levels: list[Level]
) -> Chart | None:
    columns = [(label, subject, column_of(subject)) for label, subject in runs]
    given = [(label, subject, column) for label, subject, column in columns if column.given.any()]
    if not given:
        return None
    lines = [thinned(label, subject.steps.step, column) for label, subject, column in given]
    return Chart(
        title=title,
        unit=unit,
        summary=" ".join(_summary(label, subject, column) for label, subject, column in given),
        lines=lines,
        samples=_samples(title, unit, lines, [(subject, column) for _, subject, column in given]),
        levels=levels,
        bands=_bands(runs),
    )


def _throughput(subject: Subject) -> Column:
    """Ours: tokens over time, also where the log reports a rate of its own."""
    steps = subject.steps
    tokens = np.where(steps.tokens.given, steps.tokens.values, subject.planned_tokens_per_step or np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        values = tokens / steps.step_time_s.values / subject.world_size
    return Column(np.where(np.isfinite(values), values, np.nan), np.isfinite(values))


def _loss_levels(runs: Sequence[Curve]) -> list[Level]:
    return _levels(runs, (("entropy floor", "loss_floor"), ("predicted first loss", "first_loss")))


def _levels(runs: Sequence[Curve], wanted: Sequence[tuple[str, str]]) -> list[Level]:
    found = []
    for name, key in wanted:
        by_value: dict[float, list[str]] = {}
        for label, subject in runs:
            value = subject.expected(key)
            if value is not None:
                by_value.setdefault(value, []).append(label)
        for value, labels in by_value.items():
            whose = "" if len(by_value) == 1 else f" ({', '.join(labels)})"
            found.append(Level(f"{name}{whose}", value))
    return found


def _memory_levels(runs: Sequence[Curve]) -> list[Level]:
    cards = {subject.gpu.name: subject.gpu.usable_gib for _, subject in runs if subject.gpu}
    return [Level(f"the {name} holds", gib) for name, gib in cards.items() if gib is not None]


def _kinds(runs: Sequence[Curve]) -> str:
    kinds = dict.fromkeys(kind for _, subject in runs for kind in subject.steps.memory_kinds)
    return f", {' and '.join(kinds)}" if kinds else ""


def _bands(runs: Sequence[Curve]) -> list[Band]:
    """The steady window; where runs have different ones, the stretch all of them count."""
    windows = [subject.figures.window for _, subject in runs]
    firsts = [window.first_step for window in windows if window.first_step is not None]
    lasts = [window.last_step for window in windows if window.last_step is not None]
    if len(firsts) < len(windows) or max(firsts) > min(lasts):
        return []
    label = "steady window" if len(set(firsts)) == 1 else "steady window of all runs"
    return [Band(label, max(firsts), min(lasts))]


def _summary(label: str, subject: Subject, column: Column) -> str:
    rows = np.flatnonzero(column.finite)
    if not len(rows):
        return f"{label}: no finite value."
    values, steps = column.values[rows], subject.steps.step[rows]
    low, high = int(np.argmin(values)), int(np.argmax(values))
    bad = int(column.nonfinite.sum())
    broken = f" {bad:,} values are not finite." if bad else ""
    return (
        f"{label}: {number(values[0])} at step {steps[0]:,}, {number(values[-1])} at step {steps[-1]:,}; lowest "
        f"{number(values[low])} at step {steps[low]:,}, highest {number(values[high])} at step {steps[high]:,}.{broken}"
    )


def _samples(title: str, unit: str, lines: Sequence[Line], columns: Sequence[tuple[Subject, Column]]) -> Table:
    """The curve as a person without the plot reads it: its values at a dozen steps."""
    last = max(int(subject.steps.step[-1]) for subject, _ in columns)
    first = min(int(subject.steps.step[0]) for subject, _ in columns)
    wanted = sorted({round(at) for at in np.linspace(first, last, min(_SAMPLES, last - first + 1))})
    rows = []
    for at in wanted:
        cells = []
        for subject, column in columns:
            row = int(np.searchsorted(subject.steps.step, at))
            there = row < len(column.values) and subject.steps.step[row] == at and column.given[row]
            cells.append(number(column.values[row]) if there else "-")
        rows.append([f"{at:,}", *cells])
    return Table(f"{title} in numbers", ["step", *(f"{line.label}, {unit}" for line in lines)], rows, folded=True)


def number(value: float) -> str:
    """A figure as a person reads it: five digits, thousands marked."""
    if not np.isfinite(value):
        return "NaN" if np.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:,.5g}"
