"""The four plots of training: loss, step time, throughput and memory, of one run or of several laid over each other."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from steelyard.records.columns import Column, Whole
from steelyard.reporting.page import Band, Chart, Level, Spread, Table
from steelyard.reporting.thinning import reach, stretches, thinned
from steelyard.verdict import Subject

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


def curves(runs: Sequence[Curve], found: Sequence[Level] = ()) -> list[Chart]:
    """Every plot whose figures at least one run gives; `found` are levels of the loss that somebody worked out."""
    levels = _loss_levels(runs)
    levels += [one for one in found if not any(np.isclose(one.value, known.value) for known in levels)]
    charts = [
        _chart("Loss", "nats a token", runs, lambda subject: subject.steps.loss, levels, spread=True),
        _chart("Step time", "s", runs, lambda subject: subject.steps.step_time_s, []),
        _chart("Throughput", "tokens/s/GPU", runs, _throughput, []),
        _chart("Memory", f"GiB{_kinds(runs)}", runs, lambda subject: subject.steps.memory_gib, _memory_levels(runs)),
    ]
    return [chart for chart in charts if chart is not None]


def _chart(
    title: str,
    unit: str,
    runs: Sequence[Curve],
    column_of: Callable[[Subject], Column],
    levels: list[Level],
    spread: bool = False,
) -> Chart | None:
    drawn = [_by_step(curve, column_of(curve.subject)) for curve in runs]
    drawn = [one for one in drawn if one.column.given.any()]
    if not drawn:
        return None
    count = stretches(len(drawn))
    return Chart(
        title=title,
        unit=unit,
        summary=" ".join(_summary(one) for one in drawn),
        lines=[thinned(one.curve.label, one.step, one.column, count, one.curve.side) for one in drawn],
        samples=_samples(title, unit, drawn),
        levels=levels,
        bands=_bands(runs),
        spreads=list(_spreads(drawn)) if spread else (),
    )


def _spreads(drawn: Sequence[_Drawn]) -> Iterator[Spread]:
    """From the lowest to the highest run of a side, where it has enough of them."""
    for side in sorted({one.curve.side for one in drawn}):
        own = [one for one in drawn if one.curve.side == side]
        if len(own) >= _FEWEST_OF_A_SPREAD:
            name = own[0].curve.label.partition(" ")[0]
            label = f"{name}: lowest to highest of {len(own)} runs"
            found = reach(label, [(one.step, one.column) for one in own], side)
            if found is not None:
                yield found


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
    return _levels(runs, (("entropy floor", "loss_floor"), ("predicted first loss", "first_loss")))


def _levels(runs: Sequence[Curve], wanted: Sequence[tuple[str, str]]) -> list[Level]:
    found = []
    for name, key in wanted:
        by_value: dict[float, list[str]] = {}
        for run in runs:
            value = run.subject.expected(key)
            if value is not None:
                by_value.setdefault(value, []).append(run.label)
        for value, labels in by_value.items():
            more = f" and {len(labels) - 1} more" if len(labels) > 1 else ""
            whose = "" if len(by_value) == 1 else f" ({labels[0]}{more})"
            found.append(Level(f"{name}{whose}", value))
    return found


def _memory_levels(runs: Sequence[Curve]) -> list[Level]:
    cards = {run.subject.gpu.name: run.subject.gpu.usable_gib for run in runs if run.subject.gpu}
    return [Level(f"the {name} holds", gib) for name, gib in cards.items() if gib is not None]


def _kinds(runs: Sequence[Curve]) -> str:
    kinds = dict.fromkeys(kind for run in runs for kind in run.subject.steps.memory_kinds)
    return f", {' and '.join(kinds)}" if kinds else ""


def _bands(runs: Sequence[Curve]) -> list[Band]:
    """The steady window; where runs have different ones, the stretch all of them count."""
    windows = [run.subject.figures.window for run in runs]
    ends = [(one.first_step, one.last_step) for one in windows if one.first_step is not None]
    first, last = max((one[0] for one in ends), default=1), min((one[1] or 0 for one in ends), default=0)
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
    sparsest = min((one.step for one in drawn), key=len)
    places = np.linspace(0, len(sparsest) - 1, min(_SAMPLES, len(sparsest))).astype(int)
    wanted = sorted({*sparsest[places].tolist(), *(int(one.step[-1]) for one in drawn)})
    rows = []
    for at in wanted:
        cells = []
        for one in drawn:
            row = int(np.searchsorted(one.step, at, side="right")) - 1  # the last record of a step that was repeated
            there = row >= 0 and one.step[row] == at and one.column.given[row]
            cells.append(number(one.column.values[row]) if there else "-")
        rows.append([f"{at:,}", *cells])
    columns = ["step", *(f"{one.curve.label}, {unit}" for one in drawn)]
    return Table(f"{title} in numbers", columns, rows, folded=True)


def number(value: float) -> str:
    """A figure as a person reads it: five digits, thousands marked."""
    if not np.isfinite(value):
        return "NaN" if np.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return f"{value:,.0f}" if 10_000 <= abs(value) < 1e15 else f"{value:,.5g}"
