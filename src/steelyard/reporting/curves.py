"""The plots of training, of one run or of several laid over each other."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from steelyard.records.columns import Column, Floats, Whole
from steelyard.reporting.page import Band, Chart, Level, Line, Plots, Spread, Table
from steelyard.reporting.telemetry_curves import telemetry_charts
from steelyard.reporting.thinning import covered, reach, shared_steps, stretches, thinned
from steelyard.verdict import Subject, Verdict
from steelyard.verdict.checks import grad_norm_finite, memory_capacity

_ColumnOf = Callable[[Subject], Column]
_SAMPLES = 12
_MIN_RUNS_OF_A_SPREAD = 3
_PLOT_OF = {grad_norm_finite.CHECK.name: "Gradient norm", memory_capacity.CHECK.name: "Memory"}


@dataclass(frozen=True, slots=True)
class Curve:
    """A run, its label, and its side."""

    label: str
    subject: Subject
    side: int = 0
    shade: int = 0


@dataclass(frozen=True, slots=True)
class _Drawn:
    """One curve of one plot, sorted by step, because a restart repeats steps."""

    curve: Curve
    step: Whole
    column: Column


def plots(
    runs: Sequence[Curve],
    names: Sequence[str] = ("",),
    diagnosed: Sequence[Level] = (),
    difference: bool = False,
    verdicts: Sequence[Verdict] = (),
) -> list[Plots]:
    """All plots with data; `names` are those of the sides, `diagnosed` are levels of the loss from diagnoses.

    `difference`: the losses of two sides are subtracted. Plots of checks that fail in `verdicts` are printed.
    """
    levels = _loss_levels(runs)
    levels += [level for level in diagnosed if not any(np.isclose(level.value, known.value) for known in levels)]
    sizes = _memory_levels(runs)
    kinds = dict.fromkeys(kind for run in runs for kind in run.subject.steps.memory_kinds)
    subjects = [run.subject for run in runs]
    rate, size = (per_device(unit, subjects) for unit in ("tokens/s per GPU", "GiB per GPU"))
    unit = f"{size}, {' and '.join(kinds)}" if kinds else size
    speed = [
        _chart("Throughput", rate, runs, _throughput, timed=True),
        _chart("Step time", "s", runs, lambda subject: subject.steps.step_time_s, timed=True),
        _chart("Memory", unit, runs, lambda subject: subject.steps.memory_gib, sizes, minor=True),
    ]
    loss = _chart("Loss", "nats per token", runs, lambda subject: subject.steps.loss, levels, names=names)
    learning = [
        loss,
        _difference(runs, names) if difference else None,
        _chart("Gradient norm", "", runs, lambda subject: subject.steps.grad_norm, minor=True),
        _chart("Learning rate", "", runs, lambda subject: subject.steps.learning_rate, minor=True),
    ]
    hardware = telemetry_charts([(run.label, run.subject, run.side, run.shade) for run in runs], names)
    sections = (("Plots of the loss", learning), ("Plots of the speed", speed), ("Plots of the hardware", hardware))
    decisive = _decisive(verdicts)
    drawn = [
        (title, [replace(chart, minor=chart.minor and chart.title not in decisive) for chart in charts if chart])
        for title, charts in sections
    ]
    return [Plots(title, charts) for title, charts in drawn if charts]


def _decisive(verdicts: Sequence[Verdict]) -> set[str]:
    """Titles of the plots that show why a check failed."""
    failed = [finding for verdict in verdicts for finding in verdict.failed()]
    of_memory = any(finding.reason.values.get("metric") == "memory_peak_gib" for finding in failed)
    return {_PLOT_OF.get(finding.check, "") for finding in failed} | ({"Memory"} if of_memory else set())


def _chart(
    title: str,
    unit: str,
    runs: Sequence[Curve],
    column_of: _ColumnOf,
    levels: Sequence[Level] = (),
    names: Sequence[str] = (),
    timed: bool = False,
    minor: bool = False,
) -> Chart | None:
    """`timed`: the warm-up does not stretch its axis. `names`: spreads of the sides are drawn."""
    drawn = [_by_step(curve, column_of(curve.subject)) for curve in runs]
    drawn = [curve for curve in drawn if curve.column.given.any()]
    if not drawn:
        return None
    count = stretches(len(drawn))
    lines = [_line(curve, count) for curve in drawn]
    return Chart(
        title=title,
        unit=unit,
        summary=" ".join(map(_summary, drawn)),
        lines=lines,
        samples=_samples(title, unit, drawn),
        levels=levels,
        bands=_bands(runs),
        spreads=list(_spreads(drawn, names)) if names else (),
        settled=_settled(runs) if timed else None,
        minor=minor,
        notes=covered(lines),
    )


def _line(drawn: _Drawn, count: int) -> Line:
    curve = drawn.curve
    line = thinned(curve.label, drawn.step, drawn.column, count, curve.side)
    return replace(line, shade=curve.shade, tokens=curve.subject.figures.tokens_per_step)


def _settled(runs: Sequence[Curve]) -> int | None:
    """The first step after the warm-up of every run."""
    firsts = [run.subject.figures.window.first_step for run in runs]
    known = [first for first in firsts if first is not None]
    return max(known) if known and len(known) == len(firsts) else None


def _difference(runs: Sequence[Curve], names: Sequence[str]) -> Chart | None:
    """Mean loss of the target minus mean loss of the baseline, at the steps that all runs have."""
    tokens = {run.subject.figures.tokens_per_step for run in runs}
    sides = [[_by_step(run, run.subject.steps.loss) for run in runs if run.side == side] for side in (0, 1)]
    if len(tokens) != 1 or not all(sides):
        return None
    steps = shared_steps([drawn.step[drawn.column.finite] for side in sides for drawn in side])
    if not len(steps):
        return None
    means = [np.mean([_at_steps(drawn, steps) for drawn in side], axis=0) for side in sides]
    column = Column(means[0] - means[1], np.ones(len(steps), dtype=np.bool_))
    label = f"{names[0]} minus {names[1]}"
    drawn = _Drawn(Curve(label, runs[0].subject, 2), steps, column)
    title, unit = "Loss difference", "nats per token"
    return Chart(
        title=title,
        unit=unit,
        summary=_summary(drawn),
        lines=[replace(thinned(label, drawn.step, column, style=2), tokens=tokens.pop())],
        samples=_samples(title, unit, [drawn]),
        levels=[Level("no difference", 0.0, stated=True)],
        notes=_of_no_difference(column, names),
    )


def _of_no_difference(difference: Column, names: Sequence[str]) -> list[str]:
    """What a curve of zeros means."""
    if difference.values.any():
        return []
    return [f"The losses of {names[0]} and {names[1]} are identical at all {len(difference.values):,} steps."]


def _at_steps(drawn: _Drawn, steps: Whole) -> Floats:
    """Values at steps that the curve has; the last where a step was repeated."""
    rows = drawn.column.finite
    values: Floats = drawn.column.values[rows][np.searchsorted(drawn.step[rows], steps, side="right") - 1]
    return values


def _spreads(drawn: Sequence[_Drawn], names: Sequence[str]) -> Iterator[Spread]:
    """From the lowest to the highest run of a side, where it has enough of them."""
    for side, name in enumerate(names):
        own = [line for line in drawn if line.curve.side == side]
        if len(own) >= _MIN_RUNS_OF_A_SPREAD:
            label = f"range of {name}"
            if (spread := reach(label, [(line.step, line.column) for line in own], side)) is not None:
                tokens = {line.curve.subject.figures.tokens_per_step for line in own}
                yield replace(spread, tokens=tokens.pop() if len(tokens) == 1 else None)


def _by_step(curve: Curve, column: Column) -> _Drawn:
    step = curve.subject.steps.step
    if (np.diff(step) >= 0).all():
        return _Drawn(curve, step, column)
    order = np.argsort(step, kind="stable")
    return _Drawn(curve, step[order], Column(column.values[order], column.given[order]))


def _throughput(subject: Subject) -> Column:
    """Tokens by step time, or the rate in the log where that is unknown."""
    rates = subject.step_rates
    if not np.isfinite(rates).any():
        return subject.steps.reported_tokens_per_s_per_gpu
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
            of_runs = "" if len(by_value) == 1 else f" ({labels[0]}{more})"
            levels.append(Level(f"{name}{of_runs}", value, short=labels[0] if of_runs else ""))
    return levels


def _memory_levels(runs: Sequence[Curve]) -> list[Level]:
    sizes = {run.subject.gpu.name: run.subject.gpu.usable_gib for run in runs if run.subject.gpu}
    return [Level(f"usable memory of the {name}", gib) for name, gib in sizes.items() if gib is not None]


def _bands(runs: Sequence[Curve]) -> list[Band]:
    """The steady window; where runs have different ones, the steps in all of them."""
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
    """Values at a dozen steps of the run with the fewest records, and at each end."""
    sparsest = min((line.step for line in drawn), key=len)
    places = np.linspace(0, len(sparsest) - 1, min(_SAMPLES, len(sparsest))).astype(int)
    steps = sorted({*sparsest[places].tolist(), *(int(line.step[-1]) for line in drawn)})
    rows = [[f"{step:,}", *figures_row(_value_at(line, step) for line in drawn)] for step in steps]
    columns = ["step", *(f"{line.curve.label}{f', {unit}' if unit else ''}" for line in drawn)]
    return Table(f"{title} in numbers", columns, rows, folded=True)


def _value_at(line: _Drawn, step: int) -> float | None:
    row = int(np.searchsorted(line.step, step, side="right")) - 1  # the last record of a step that was repeated
    recorded = row >= 0 and line.step[row] == step and line.column.given[row]
    return float(line.column.values[row]) if recorded else None


def figures_row(values: Iterable[float | None]) -> list[str]:
    return ["-" if value is None else number(value) for value in values]


def with_interval(value: float, low: float | None, high: float | None) -> str:
    return f"{value:.4f}" if low is None or high is None else f"{value:.4f} [{low:.4f}, {high:.4f}]"


def number(value: float, digits: int = 5, padded: bool = False) -> str:
    """A value with so many significant digits, thousands marked; `padded` with zeros for a column of figures."""
    if not np.isfinite(value):
        return "NaN" if np.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if 10_000 <= abs(value) < 1e15:
        return f"{value:,.0f}"
    return f"{value:#,.{digits}g}".rstrip(".") if padded else f"{value:,.{digits}g}"


def per_device(unit: str, subjects: Sequence[Subject]) -> str:
    """A unit `per GPU`; `per rank` where all runs are on CPUs."""
    on_cpus = bool(subjects) and all(subject.on_cpu for subject in subjects)
    return unit.replace("per GPU", "per rank") if on_cpus else unit
