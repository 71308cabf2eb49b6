"""The cells of a comparison: one of two sides is a single cell, one of two suites has many."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from steelyard.campaign.suite_comparison import CellPair, Mean, SideOfCell, SuiteComparison
from steelyard.campaign.suite_matching import match
from steelyard.comparison import NAME_OF, Comparison, Metric, Ratio
from steelyard.comparison.intervals import geometric_mean
from steelyard.experiment.cells import label_of
from steelyard.experiment.experiment import GROUPS
from steelyard.reporting.figures import Drawing
from steelyard.reporting.page import Page
from steelyard.reporting.paper.setup import model_name
from steelyard.reporting.run_page import reproduce
from steelyard.reporting.sides import side_names
from steelyard.verdict import Subject, read_subjects

Values = Mapping[str, Any]
_MICRO_BATCH = "training.micro_batch_size"
AXES = {
    "model": "Model",
    "model.preset": "Model",
    _MICRO_BATCH: "Micro batch",
    "training.global_batch_size": "Global batch",
    "training.sequence_length": "Sequence",
    "nodes": "Nodes",
}
"""Titles of columns, in their order; other axes follow."""


@dataclass(frozen=True, slots=True)
class SideCell:
    """One side of a cell: its runs, or why it has no figures."""

    subjects: Sequence[Subject]
    absent: SideOfCell | None = None

    def figures(self, metric: str) -> list[float]:
        """The figure of every run; empty if one is unknown."""
        values = [subject.figures.metric(metric).value for subject in self.subjects]
        known = [value for value in values if value is not None and value > 0]
        return known if self.absent is None and len(known) == len(values) else []

    def mean(self, metric: str) -> float | None:
        known = self.figures(metric)
        return geometric_mean(known) if known else None


@dataclass(frozen=True, slots=True)
class Group:
    """A platform: what it is called, and its cells."""

    name: str
    cells: Sequence[SideCell]


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a comparison."""

    label: str
    """What distinguishes it from the other cells."""
    values: Values
    target: SideCell
    baseline: SideCell
    comparison: Comparison | None
    """None if a side has no figures."""
    adjusted: Mapping[Metric, str | None]
    """Its conclusions, adjusted for the number of cells; None without an interval between runs."""

    @property
    def sides(self) -> tuple[SideCell, SideCell]:
        return self.target, self.baseline

    @property
    def named(self) -> tuple[tuple[str, SideCell], ...]:
        return ("target", self.target), ("baseline", self.baseline)

    def ratio(self, metric: Metric) -> Ratio | None:
        return self.comparison.ratios[metric] if self.comparison and metric in NAME_OF else None


@dataclass(frozen=True, slots=True)
class Cells:
    """What a paper is about."""

    names: tuple[str, str]
    """Target and baseline."""
    axes: Sequence[str]
    """In which the cells differ."""
    cells: Sequence[Cell]
    asked: Sequence[Metric]
    margin: float
    means: Mapping[Metric, Mean | None]
    banner: str
    commands: Sequence[str]
    drawings: Mapping[str, Drawing]
    """The plots of the page, by title."""

    @property
    def compared(self) -> list[Comparison]:
        return [cell.comparison for cell in self.cells if cell.comparison]

    @property
    def only(self) -> Comparison | None:
        """The comparison, if there is a single cell."""
        return self.cells[0].comparison if len(self.cells) == 1 else None

    @property
    def groups(self) -> list[Group]:
        """The cells of each side."""
        return [Group(name, [cell.sides[side] for cell in self.cells]) for side, name in enumerate(self.names)]

    def subjects(self, side: int) -> list[Subject]:
        """All runs of the target (0) or the baseline (1)."""
        return [subject for cell in self.cells for subject in cell.sides[side].subjects]

    def ratios(self, metric: Metric) -> list[tuple[Cell, Ratio]]:
        return [(cell, ratio) for cell in self.cells if (ratio := cell.ratio(metric)) is not None]

    def columns(self) -> list[tuple[str, list[str]]]:
        """Title and texts of the columns that name the cells: model, batch and nodes where known, then other axes."""
        of_records = {
            axes[0]: _of_records(self.cells, read) for axes, read in _READ.items() if not {*axes} & {*self.axes}
        }
        columns = {axis: [_text(cell.values.get(axis)) for cell in self.cells] for axis in self.axes}
        columns |= {axis: values for axis, values in of_records.items() if all(values)}
        order = [*AXES, *columns]
        return [(axis_title(axis), columns[axis]) for axis in sorted(columns, key=order.index)]


def _of_records(cells: Sequence[Cell], read: Callable[[Subject], Any]) -> list[str]:
    """What the runs of each cell record; empty where they record nothing or different things."""
    texts = []
    for cell in cells:
        values = {read(subject) for side in cell.sides for subject in side.subjects}
        texts.append(_text(values.pop()) if len(values) == 1 else "")
    return texts


_READ: Mapping[tuple[str, ...], Callable[[Subject], Any]] = {
    ("model", "model.preset"): model_name,
    (_MICRO_BATCH,): lambda subject: subject.whole(_MICRO_BATCH),
    ("nodes",): lambda subject: subject.run.manifest.platform.nodes,
}
"""What identifies a cell, by the axes that may already have it."""


def axis_title(axis: str) -> str:
    """`Micro batch`."""
    group, _, key = axis.partition(".")
    name = (key if group in GROUPS and key else axis).replace("_", " ").removesuffix(" size")
    return AXES.get(axis) or f"{name[:1].upper()}{name[1:]}"


def _text(value: Any) -> str:
    return "" if value is None else f"{value:,}" if type(value) is int else str(value)


def cells_of_comparison(made: Comparison, page: Page) -> Cells:
    sides = (SideCell(made.target.subjects), SideCell(made.baseline.subjects))
    cell = Cell(_label(made), {}, *sides, made, dict.fromkeys(NAME_OF))
    return Cells(
        names=side_names(made),
        axes=(),
        cells=(cell,),
        asked=made.asked,
        margin=made.margin,
        means=dict.fromkeys(NAME_OF),
        banner=made.banner or "",
        commands=page.commands,
        drawings=by_title(page),
    )


def cells_of_suites(made: SuiteComparison, page: Page) -> Cells:
    typed = dict.fromkeys(
        reproduce(subject) for pair in made.pairs if pair.comparison for side in pair.comparison.sides
        for subject in side.subjects
    )  # fmt: skip
    return Cells(
        names=(made.target, made.baseline),
        axes=made.axes,
        cells=list(_cells(made)),
        asked=made.asked,
        margin=made.margin,
        means=made.means,
        banner=made.banner or "",
        commands=[*typed, *page.commands],
        drawings=by_title(page),
    )


def _label(made: Comparison) -> str:
    """`llama3.1-8b, micro batch 2`, where both sides have the same."""
    subjects = [subject for side in made.sides for subject in side.subjects]
    models = list(dict.fromkeys(map(model_name, subjects)))
    batches = list(dict.fromkeys(subject.whole(_MICRO_BATCH) for subject in subjects))
    batch = [label_of(_MICRO_BATCH, batches[0])] if len(batches) == 1 and batches[0] else []
    return ", ".join([*models, *batch])


def by_title(page: Page) -> dict[str, Drawing]:
    return {drawing.title: drawing for drawing in page.drawings}


def _cells(made: SuiteComparison) -> Iterator[Cell]:
    labels = short_labels([pair.values for pair in made.pairs])
    for at, (pair, label) in enumerate(zip(made.pairs, labels, strict=True)):
        conclusions = {metric: made.adjusted[metric][at] for metric in NAME_OF}
        target, baseline = _sides(made, pair)
        yield Cell(label, pair.values, target, baseline, pair.comparison, conclusions)


def _sides(made: SuiteComparison, pair: CellPair) -> Iterator[SideCell]:
    if pair.comparison is not None:
        yield from (SideCell(side.subjects) for side in pair.comparison.sides)
        return
    _, matched = match(*made.suites)
    cells = matched[tuple(pair.values[axis] for axis in made.axes)]
    for suite, cell, absent in zip(made.suites, cells, (pair.target, pair.baseline), strict=True):
        runs = [run for run in suite.runs(cell) if run is not None] if cell else []
        yield SideCell(read_subjects(runs, made.options.warmup_steps), absent)


def short_labels(values: Sequence[Values]) -> list[str]:
    """A cell by the axes in which cells differ: `micro batch 4`."""
    differing = [axis for axis in values[0] if len({str(own.get(axis)) for own in values}) > 1] or list(values[0])
    return [", ".join(label_of(axis, own.get(axis)) for axis in differing) or "the only cell" for own in values]
