"""Matches the cells of two suites by their values, and compares each."""

from collections.abc import Iterator, Sequence
from typing import Any

from steelyard.campaign import refused
from steelyard.campaign.resume import is_oom
from steelyard.campaign.suite_comparison import Absence, CellPair, Options, SideOfCell, SuiteComparison
from steelyard.campaign.suite_means import adjusted, mean_of
from steelyard.comparison import NAME_OF, Metric, weigh
from steelyard.comparison.codes import sentence
from steelyard.comparison.contract import ONE_PLATFORM, difference
from steelyard.comparison.copies import digest, twice
from steelyard.comparison.intervals import MARGIN
from steelyard.errors import InputError
from steelyard.experiment.cells import SIDES, label_of
from steelyard.reasons import Code, Reason
from steelyard.records import Run, unstamped
from steelyard.records.suite import Suite, SuiteCell
from steelyard.verdict import Subject

NOT_COMPARED = Code("cell_not_compared", "{cell} is {status}: {why}")
"""A cell is not comparable or unknown."""
NO_FIGURES = Code("cell_without_figures", "{cell}: {words} on {side}")
"""A cell ran out of memory, was skipped or was not run on one side."""
OBSERVED = Code("cell_observed", "{cell}: {words}")
"""A cell has no interval between runs, so the mean has none."""


def compare_suites(target: Suite, baseline: Suite, options: Options) -> SuiteComparison:
    """Match the cells by their values and compare each."""
    names = names_of(target, baseline)
    axes, matched = match(target, baseline)
    pairs = tuple(_pair(axes, values, sides, (target, baseline), options, names) for values, sides in matched.items())
    _check(pairs)
    return combined(names, (target, baseline), options, axes, pairs)


def names_of(target: Suite, baseline: Suite) -> tuple[str, str]:
    names = unstamped(target.name), unstamped(baseline.name)
    if names[0] == names[1]:
        names = target.name, baseline.name
    return names if names[0] != names[1] else (f"{names[0]} (target)", f"{names[1]} (baseline)")


def combined(
    names: tuple[str, str],
    suites: tuple[Suite, Suite],
    options: Options,
    axes: tuple[str, ...],
    pairs: tuple[CellPair, ...],
) -> SuiteComparison:
    """The means over all cells, and the conclusion of each cell among all."""
    compared = [pair.comparison for pair in pairs if pair.comparison]
    margin = options.margin or min((made.margin for made in compared), default=MARGIN)
    every = {metric: tuple(adjusted(pairs, metric, margin)) for metric in NAME_OF}
    return SuiteComparison(
        target=names[0],
        baseline=names[1],
        suites=suites,
        options=options,
        axes=axes,
        pairs=pairs,
        margin=margin,
        means={metric: mean_of(pairs, metric, margin) for metric in NAME_OF},
        adjusted=every,
        left_out={metric: tuple(_left_out(pairs, metric, names)) for metric in NAME_OF},
    )


Values = tuple[Any, ...]
"""The values of a cell in the order of the axes."""
Matched = dict[Values, tuple[SuiteCell | None, SuiteCell | None]]


def match(target: Suite, baseline: Suite) -> tuple[tuple[str, ...], Matched]:
    """The cells of both suites by their values, without those of the platform; those of the target come first."""
    axes = tuple(
        dict.fromkeys(axis for suite in (target, baseline) for axis in suite.manifest.axes if axis not in SIDES)
    )
    by_side = [_by_values(suite, axes, key) for suite, key in ((target, "TARGET"), (baseline, "BASELINE"))]
    every = dict.fromkeys(values for cells in by_side for values in cells)
    return axes, {values: (by_side[0].get(values), by_side[1].get(values)) for values in every}


def _by_values(suite: Suite, axes: Sequence[str], key: str) -> dict[Values, SuiteCell]:
    cells: dict[Values, SuiteCell] = {}
    for cell in suite.cells:
        values = tuple(_value(suite, cell, axis) for axis in axes)
        if values in cells:
            other = cells[values]
            place = suite.directory
            if suite.platform is None and len(suite.platforms) > 1:
                problem = f"{key}: {place} has the platforms {', '.join(suite.platforms)}"
                first = f"{place}/{other.directory.partition('/')[0]}"
                raise refused(key, problem.removeprefix(f"{key}: "), "one platform of the suite", str(place), first)
            problem = f"{place}: the cells {other.directory} and {cell.directory} have the same values"
            raise refused(key, problem, "cells that differ in an axis", str(place))
        cells[values] = cell
    return cells


def _value(suite: Suite, cell: SuiteCell, axis: str) -> Any:
    """A value of a cell; of an axis that only the other suite has, what its runs record."""
    if axis in cell.values:
        return cell.values[axis]
    run = next((run for run in suite.runs(cell) if run is not None), None)
    if run is None:
        return None
    platform = run.manifest.platform
    recorded = {"nodes": platform.nodes, "gpus": platform.gpus_per_node}
    value = recorded[axis] if axis in recorded else run.manifest.experiment.value(axis)
    return value if isinstance(value, bool | int | float | str) else None


def _pair(
    axes: Sequence[str],
    values: Values,
    cells: tuple[SuiteCell | None, SuiteCell | None],
    suites: tuple[Suite, Suite],
    options: Options,
    names: tuple[str, str],
) -> CellPair:
    by_axis = dict(zip(axes, values, strict=True))
    label = ", ".join(label_of(axis, value) for axis, value in by_axis.items()) or "the only cell"
    runs = [
        [run for run in suite.runs(cell) if run is not None] if cell else []
        for suite, cell in zip(suites, cells, strict=True)
    ]
    target, baseline = (_absence(cell, own) for cell, own in zip(cells, runs, strict=True))
    made = None
    if target is None and baseline is None:
        how = (options.asked, options.mode, options.warmup_steps, options.margin, options.declared)
        try:
            made = weigh(runs[0], runs[1], *how, called=names)
        except InputError as error:
            error.message = f"cell {label}: {error.message}"
            raise
    return CellPair(by_axis, label, target, baseline, made)


def _absence(cell: SuiteCell | None, runs: Sequence[Run]) -> SideOfCell | None:
    """Why a side of a cell has no figures; None if it has."""
    if cell is None:
        return SideOfCell(Absence.MISSING)
    memory = (cell.planned_gib, cell.available_gib)
    if cell.skipped:
        return SideOfCell(Absence.SKIPPED, *memory)
    if any(is_oom(run) for run in runs):
        return SideOfCell(Absence.OOM, *memory)
    return None if runs else SideOfCell(Absence.MISSING, *memory)


def _check(pairs: Sequence[CellPair]) -> None:
    """Require one platform per side, and each run in one cell only."""
    for at, name in enumerate(("TARGET", "BASELINE")):
        subjects = [subject for pair in pairs if pair.comparison for subject in pair.comparison.sides[at].subjects]
        if (differing := difference(subjects, ONE_PLATFORM)) is not None:
            raise refused(name, differing.message, "one platform on each side", next="steelyard runs show SUITE")
        first: dict[bytes, Subject] = {}
        for subject in subjects:
            if not len(subject.steps):
                continue
            other = first.setdefault(digest(subject.steps), subject)
            if other is not subject and subject.tells_times:
                raise twice(name, other.run.directory, subject.run.directory)


def _left_out(pairs: Sequence[CellPair], metric: Metric, names: tuple[str, str]) -> Iterator[Reason]:
    for pair in pairs:
        for side, called in ((pair.target, names[0]), (pair.baseline, names[1])):
            if side is not None:
                yield Reason(NO_FIGURES, {"cell": pair.label, "words": side.words, "side": called})
        if pair.comparison is None:
            continue
        if (ratio := pair.ratio(metric)) is None:
            ruling = pair.comparison.comparable[metric]
            why = sentence(ruling.reasons[0]) if ruling.reasons else "no reason recorded"
            values = {"cell": pair.label, "status": ruling.status.value.replace("_", " "), "why": why}
            yield Reason(NOT_COMPARED, values, keys=ruling.reasons[0].keys if ruling.reasons else ())
        elif pair.between(metric) is None:
            yield Reason(OBSERVED, {"cell": pair.label, "words": ratio.words})
