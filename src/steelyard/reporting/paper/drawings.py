"""The figures of a paper that a page does not have: cells next to each other, achieved compute, scaling."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from steelyard.comparison import Metric
from steelyard.comparison.intervals import geometric_mean
from steelyard.comparison.phrases import percent
from steelyard.comparison.ratios import FIGURE_OF
from steelyard.reporting.bars import Bar, BarGroup, Bars
from steelyard.reporting.curves import per_device
from steelyard.reporting.page import Chart, Level, Line, Table
from steelyard.reporting.paper import Block, Heading, PaperFigure, Paragraph, Ref
from steelyard.reporting.paper.cells import Group, SideCell, Values
from steelyard.reporting.paper.setup import gpu_name
from steelyard.verdict import Subject

_MOST_BARS = 24
"""Cells in a figure; the tables have all."""
_NO_TABLE = Table("", (), ())
"""The values of these figures are in the tables of the paper."""
_BARS = {
    Metric.THROUGHPUT: ("Throughput by cell", "tokens/s per GPU", FIGURE_OF[Metric.THROUGHPUT]),
    Metric.MEMORY: ("Peak memory by cell", "GiB per GPU", FIGURE_OF[Metric.MEMORY]),
    Metric.FLOPS: ("Roofline: achieved compute", "TFLOP/s per GPU", "tflops_per_gpu"),
}
"""Title, unit and what is drawn."""


def bars(of: Metric, places: Sequence[str], groups: Sequence[Group]) -> Bars | None:
    """A bar per place and platform; None if nothing is known."""
    title, unit, metric = _BARS[of]
    subjects = [subject for group in groups for cell in group.cells for subject in cell.subjects]
    drawn = [
        BarGroup(group.name, [_bar(cell, metric) for cell in group.cells[:_MOST_BARS]], style)
        for style, group in enumerate(groups)
    ]
    if all(bar.value is None for group in drawn for bar in group.bars):
        return None
    levels = _LEVELS[of](subjects) if of in _LEVELS else []
    return Bars(title, per_device(unit, subjects), places[:_MOST_BARS], drawn, levels)


def _bar(cell: SideCell, metric: str) -> Bar:
    if cell.absent is not None:
        return Bar(None, cell.absent.absence.words)
    runs = cell.figures(metric)
    return Bar(geometric_mean(runs), runs=runs if len(runs) > 1 else ()) if runs else Bar(None, "unknown")


def _capacities(subjects: Iterable[Subject]) -> list[Level]:
    sizes = {gpu_name(subject): subject.gpu.usable_gib for subject in subjects if subject.gpu}
    return [Level(f"memory of the {name}", size) for name, size in sizes.items() if size is not None]


def _peaks(subjects: Iterable[Subject]) -> list[Level]:
    """Dense peaks by data sheet."""
    peaks = {(gpu_name(subject), subject.precision): subject.peak_tflops for subject in subjects}
    return [Level(f"{how} peak of the {name}", peak) for (name, how), peak in peaks.items() if peak is not None]


_LEVELS: Mapping[Metric, Callable[[Iterable[Subject]], list[Level]]] = {
    Metric.MEMORY: _capacities,
    Metric.FLOPS: _peaks,
}


def ratio_text(value: float, low: float | None, high: float | None) -> str:
    """`1.163 [1.137, 1.189]`."""
    return f"{value:.3f}" if low is None or high is None else f"{value:.3f} [{low:.3f}, {high:.3f}]"


@dataclass(frozen=True, slots=True)
class Scaled:
    """Tokens/s per GPU of one platform and job on several node counts, as shares of that on the fewest."""

    label: str
    side: int
    shares: Mapping[int, float]


def scaled(groups: Sequence[Group], values: Sequence[Values]) -> list[Scaled]:
    """The jobs that ran on two node counts or more; `values` are those of the cells, by axis."""
    curves: dict[tuple[int, str], dict[int, float]] = {}
    for side, group in enumerate(groups):
        for cell, of_cell in zip(group.cells, values, strict=True):
            job = ", ".join(str(value) for axis, value in of_cell.items() if axis != "nodes")
            counts = {subject.run.manifest.platform.nodes for subject in cell.subjects}
            rate, nodes = cell.mean(FIGURE_OF[Metric.THROUGHPUT]), counts.pop() if len(counts) == 1 else None
            if rate is not None and nodes is not None:
                curves.setdefault((side, job), {})[nodes] = rate
    curves = {key: rates for key, rates in curves.items() if len(rates) > 1}
    several = len({job for _, job in curves}) > 1
    return [
        Scaled(
            f"{groups[side].name}, {job}" if several else groups[side].name,
            side,
            {nodes: rate / rates[min(rates)] for nodes, rate in sorted(rates.items())},
        )
        for (side, job), rates in curves.items()
    ]


def scaling_blocks(curves: Sequence[Scaled]) -> Iterator[Block]:
    """Empty where nothing ran on several node counts."""
    if not curves:
        return
    figure = _scaling_figure(curves)
    most = [(curve, max(curve.shares)) for curve in curves]
    words = "; ".join(f"{curve.label}: {percent(curve.shares[nodes])} on {nodes} nodes" for curve, nodes in most)
    yield Heading("Scaling")
    yield Paragraph(
        [Ref("Figure", figure.label), f" shows the tokens/s per GPU relative to the fewest nodes: {words}."]
    )
    yield figure


def _scaling_figure(curves: Sequence[Scaled]) -> PaperFigure:
    lines = [
        Line(curve.label, list(curve.shares), [100 * share for share in curve.shares.values()], style=curve.side)
        for curve in curves
    ]
    chart = Chart(
        "Scaling efficiency", "%", "", _NO_TABLE, lines, [Level("linear scaling", 100.0, stated=True)], x_name="nodes"
    )
    caption = "Tokens/s per GPU on several nodes, relative to the fewest."
    return PaperFigure(caption, chart)
