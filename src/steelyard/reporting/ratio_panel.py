"""The ratios as a picture: each with its interval against 1 and the margin, and every run beside the others."""

import statistics
from collections.abc import Iterator, Sequence

from steelyard.comparison import NAME_OF, Comparison, Metric, Ratio
from steelyard.comparison.ratios import FIGURE_OF
from steelyard.comparison.side import Side
from steelyard.reporting.answers import around, tone_of
from steelyard.reporting.curves import number
from steelyard.reporting.labels import labelled
from steelyard.reporting.page import Cell, IntervalPlot, Mark, Panel, Table, Track

TITLES = {
    Metric.THROUGHPUT: "Throughput speedup",
    Metric.MEMORY: "Memory usage efficiency",
    Metric.FLOPS: "FLOPs utilization",
}
_COLUMNS = ["ratio", "value", "interval", "interval of", "margin", "what may be said", "target", "baseline"]


def ratio_panel(made: Comparison) -> list[Panel]:
    """Nothing where no ratio may be shown."""
    ratios = {metric: found for metric in NAME_OF if (found := made.ratios[metric]) is not None}
    if not ratios:
        return []
    note = (
        f"Above 1 is good for the target. Shaded: within the margin of {made.margin:.3g}, too little to matter. "
        "A broken line is an interval inside the runs that were made, and says nothing of another run. "
        "Ratios tell nothing of learning."
    )
    repeats = [_repeats(metric, ratio, made) for metric, ratio in ratios.items() if _repeated(ratio)]
    return [Panel("Ratios", [_ratios(ratios, made), *repeats], note)]


def _repeated(ratio: Ratio) -> bool:
    return max(ratio.target_runs, ratio.baseline_runs) > 1


def _ratios(ratios: dict[Metric, Ratio], made: Comparison) -> IntervalPlot:
    rows: list[list[str | Cell]] = [[_name(metric, ratio), *_numbers(ratio)] for metric, ratio in ratios.items()]
    return IntervalPlot(
        title="Target against baseline",
        summary=" ".join(
            f"{_name(metric, ratio)} {_figure(ratio)}, {ratio.words}." for metric, ratio in ratios.items()
        ),
        tracks=[_track(_name(metric, ratio), ratio) for metric, ratio in ratios.items()],
        margin=made.margin,
        samples=Table("Ratios in numbers", _COLUMNS, rows, folded=True),
    )


def _name(metric: Metric, ratio: Ratio) -> str:
    return f"{'FORCED: ' if ratio.forced else ''}{TITLES[metric]}"


def _track(label: str, ratio: Ratio) -> Track:
    return Track(
        label,
        _figure(ratio),
        _mark(ratio),
        tone_of(ratio),
        ratio.value,
        ratio.low,
        ratio.high,
        ratio.interval == "runs",
    )


def _figure(ratio: Ratio) -> str:
    interval = f" [{ratio.low:.4f}, {ratio.high:.4f}]" if ratio.low is not None and ratio.high is not None else ""
    return f"{ratio.value:.4f}{interval}"


def _mark(ratio: Ratio) -> str:
    return f"FORCED, {ratio.words}" if ratio.forced else ratio.words


def _numbers(ratio: Ratio) -> Iterator[str | Cell]:
    yield f"{ratio.value:.4f}"
    known = ratio.low is not None and ratio.high is not None
    yield f"{ratio.low:.4f} to {ratio.high:.4f}" if known else "none"
    yield f"{ratio.level:.0%}, {ratio.method}" if known else ""
    yield f"{ratio.margin:.3g}"
    yield _mark(ratio)
    yield number(ratio.target_figure)
    yield number(ratio.baseline_figure)


def _repeats(metric: Metric, ratio: Ratio, made: Comparison) -> IntervalPlot:
    """Every run against the geometric mean of the baseline's."""
    labels = (label for label, _, _ in labelled(made))  # the target's first; a run may stand on both sides
    rows: list[list[str | Cell]] = []
    tracks = []
    for style, side in enumerate((made.target, made.baseline)):
        figures = _figures(metric, side)
        marks = [Mark(next(labels), _relative(metric, figure, ratio.baseline_figure)) for figure in figures]
        rows += [[mark.label, number(figure), f"{mark.value:.4f}"] for mark, figure in zip(marks, figures, strict=True)]
        runs = f"{len(marks)} run{'s' * (len(marks) != 1)}"
        tracks.append(Track(side.name, runs, _reach(marks), marks=marks, style=style))
    title = _name(metric, ratio)
    interval = f" {found}." if (found := around(ratio)) else ""
    reaches = " ".join(f"{track.label}: {track.figure}, {track.said}." for track in tracks)
    return IntervalPlot(
        title=f"{title}, run by run",
        summary=f"Each run against the geometric mean of the baseline's. {reaches}{interval}",
        tracks=[*tracks, _track("ratio", ratio)],
        margin=made.margin,
        samples=Table(
            f"{title}, runs in numbers", ["run", FIGURE_OF[metric], "of the baseline's mean"], rows, folded=True
        ),
    )


def _figures(metric: Metric, side: Side) -> list[float]:
    found = [subject.figures.metric(FIGURE_OF[metric]).value for subject in side.subjects]
    return [value for value in found if value is not None]


def _relative(metric: Metric, figure: float, baseline: float) -> float:
    return baseline / figure if metric == Metric.MEMORY else figure / baseline


def _reach(marks: Sequence[Mark]) -> str:
    values = [mark.value for mark in marks]
    if len(values) == 1:
        return f"{values[0]:.4f}"
    share = statistics.stdev(values) / statistics.fmean(values)
    return f"{min(values):.4f} to {max(values):.4f}, deviation {share:.2%}"
