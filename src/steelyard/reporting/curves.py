"""The four plots of training: loss, step time, throughput and memory, of one run or of several laid over each other."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from steelyard.records.columns import Column, Whole
from steelyard.reporting.page import Band, Chart, Level, Spread, Table
from steelyard.reporting.thinning import reach, stretches, thinned
from steelyard.verdict import Subject

_ColumnOf = Callable[[Subject], Column]
_SAMPLES = 12
_FEWEST_OF_A_SPREAD = 3


@dataclass(frozen=True, slots=True)
class Curve:
    """A run, the label it carries, and the side it belongs to."""

    label: str
    subject: Subject
    side: int = 0


@dataclass(frozen=True, slots=True)
class _Drawn:
    """One curve of one plot, by step: a restart goes back, and a plot cannot."""

    curve: Curve
    step: Whole
    column: Column


def curves(runs: Sequence[Curve], diagnosed: Sequence[Level] = ()) -> list[Chart]:
    """Every plot whose figures at least one run gives; `diagnosed` are levels of the loss that somebody worked out."""
    levels = _loss_levels(runs)
    levels += [level for level in diagnosed if not any(np.isclose(level.value, known.value) for known in levels)]
    kinds = dict.fromkeys(kind for run in runs for kind in run.subject.steps.memory_kinds)
    unit = f"GiB, {' and '.join(kinds)}" if kinds else "GiB"
    cards = {run.subject.gpu.name: run.subject.gpu.usable_gib for run in runs if run.subject.gpu}
    sizes = [Level(f"the {name} holds", gib) for name, gib in cards.items() if gib is not None]
    charts = [
        _chart("Loss", "nats a token", runs, lambda subject: subject.steps.loss, levels, spread=True),
        _chart("Step time", "s", runs, lambda subject: subject.steps.step_time_s, []),
        _chart("Throughput", "tokens/s/GPU", runs, _throughput, []),
        _chart("Memory", unit, runs, lambda subject: subject.steps.memory_gib, sizes),
    ]
    return [chart for chart in charts if chart is not None]


def _chart(
    title: str, unit: str, runs: Sequence[Curve], column_of: _ColumnOf, levels: list[Level], spread: bool = False
) -> Chart | None:
    drawn = [_by_step(curve, column_of(curve.subject)) for curve in runs]
    drawn = [curve for curve in drawn if curve.column.given.any()]
    if not drawn:
        return None
    count = stretches(len(drawn))
    return Chart(
        title=title,
        unit=unit,
        summary=" ".join(map(_summary, drawn)),
        lines=[thinned(line.curve.label, line.step, line.column, count, line.curve.side) for line in drawn],
        samples=_samples(title, unit, drawn),
        levels=levels,
        bands=_bands(runs),
        spreads=list(_spreads(drawn)) if spread else (),
    )


def _spreads(drawn: Sequence[_Drawn]) -> Iterator[Spread]:
    """From the lowest to the highest run of a side, where it has enough of them."""
    for side in sorted({line.curve.side for line in drawn}):
        own = [line for line in drawn if line.curve.side == side]
        if len(own) >= _FEWEST_OF_A_SPREAD:
            label = f"{own[0].curve.label.partition(' ')[0]}: lowest to highest of {len(own)} runs"
            if (spread := reach(label, [(line.step, line.column) for line in own], side)) is not None:
                yield spread


def _by_step(curve: Curve, column: Column) -> _Drawn:
    step = curve.subject.steps.step
    if (np.diff(step) >= 0).all():
        return _Drawn(curve, step, column)
    order = np.argsort(step, kind="stable")
    return _Drawn(curve, step[order], Column(column.values[order], column.given[order]))


def _throughput(subject: Subject) -> Column:
    """Ours, also where the log reports a rate of its own."""
    rates = subject.step_rates
    known = np.isfinite(rates)
    return Column(np.where(known, rates, np.nan), known)


def _loss_levels(runs: Sequence[Curve]) -> list[Level]:
    levels = []
    for name, key in (("entropy floor", "loss_floor"), ("predicted first loss", "first_loss")):
        by_value: dict[float, list[str]] = {}
        for run in runs:
            if (value := run.subject.expected(key)) is not None:
                by_value.setdefault(value, []).append(run.label)
        for value, labels in by_value.items():
            more = f" and {len(labels) - 1} more" if len(labels) > 1 else ""
            whose = "" if len(by_value) == 1 else f" ({labels[0]}{more})"
            levels.append(Level(f"{name}{whose}", value))
    return levels


def _bands(runs: Sequence[Curve]) -> list[Band]:
    """The steady window; where runs have different ones, the stretch all of them count."""
    windows = [run.subject.figures.window for run in runs]
    ends = [(window.first_step, window.last_step or 0) for window in windows if window.first_step is not None]
    first, last = max((first for first, _ in ends), default=1), min((last for _, last in ends), default=0)
    if len(ends) < len(windows) or first > last:
        return []
    return [Band("steady window" if len(set(ends)) == 1 else "steady in all runs", first, last)]


def _summary(drawn: _Drawn) -> str:
    label, column = drawn.curve.label, drawn.column
    rows = np.flatnonzero(column.finite)
    if not len(rows):
        return f"{label}: no finite value."
    values, steps = column.values[rows], drawn.step[rows]
    low, high = int(np.argmin(values)), int(np.argmax(values))
    bad = int(column.nonfinite.sum())
    broken = f" {bad:,} values are not finite." if bad else ""
    return (
        f"{label}: {number(values[0])} at step {steps[0]:,}, {number(values[-1])} at step {steps[-1]:,}; lowest "
        f"{number(values[low])} at step {steps[low]:,}, highest {number(values[high])} at step {steps[high]:,}.{broken}"
    )


def _samples(title: str, unit: str, drawn: Sequence[_Drawn]) -> Table:
    """The curves as one reads them without the plot: at a dozen steps of the run that has the fewest, and each end."""
    sparsest = min((line.step for line in drawn), key=len)
    places = np.linspace(0, len(sparsest) - 1, min(_SAMPLES, len(sparsest))).astype(int)
    steps = sorted({*sparsest[places].tolist(), *(int(line.step[-1]) for line in drawn)})
    rows = [[f"{step:,}", *figures_row(_value_at(line, step) for line in drawn)] for step in steps]
    columns = ["step", *(f"{line.curve.label}, {unit}" for line in drawn)]
    return Table(f"{title} in numbers", columns, rows, folded=True)


def _value_at(line: _Drawn, step: int) -> float | None:
    row = int(np.searchsorted(line.step, step, side="right")) - 1  # the last record of a step that was repeated
    there = row >= 0 and line.step[row] == step and line.column.given[row]
    return float(line.column.values[row]) if there else None


def figures_row(values: Iterable[float | None]) -> list[str]:
    return ["-" if value is None else number(value) for value in values]


def with_interval(value: float, low: float | None, high: float | None) -> str:
    return f"{value:.4f}" if low is None or high is None else f"{value:.4f} [{low:.4f}, {high:.4f}]"


def number(value: float) -> str:
    """A figure as a person reads it: five digits, thousands marked."""
    if not np.isfinite(value):
        return "NaN" if np.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return f"{value:,.0f}" if 10_000 <= abs(value) < 1e15 else f"{value:,.5g}"
