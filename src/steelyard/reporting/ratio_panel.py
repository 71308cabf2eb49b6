"""The ratios as a picture: each with its interval against 1 and the margin, and every run beside the others."""

import statistics
from collections.abc import Sequence

from steelyard.comparison import NAME_OF, Comparison, Metric, Ratio
from steelyard.comparison.ratios import FIGURE_OF
from steelyard.reporting.claims import around, labelled, tone_of
from steelyard.reporting.curves import number, with_interval
from steelyard.reporting.page import IntervalPlot, Mark, Panel, Table, Track

TITLES = {
    Metric.THROUGHPUT: "Throughput speedup",
    Metric.MEMORY: "Memory usage efficiency",
    Metric.FLOPS: "FLOPs utilization",
}
_COLUMNS = ["ratio", "value", "interval", "interval of", "margin", "what may be said", "target", "baseline"]


def ratio_panel(made: Comparison) -> list[Panel]:
    """Nothing where no ratio may be shown."""
    ratios = {metric: ratio for metric in NAME_OF if (ratio := made.ratios[metric]) is not None}
    if not ratios:
        return []
    note = (
        f"Above 1 is good for the target. Shaded: within the margin of {made.margin:.3g}, too little to matter. "
        "A broken line is an interval inside the runs that were made, and says nothing of another run. "
        "Ratios tell nothing of learning."
    )
    repeated = {m: ratio for m, ratio in ratios.items() if max(ratio.target_runs, ratio.baseline_runs) > 1}
    repeats = [_repeats(metric, ratio, made) for metric, ratio in repeated.items()]
    return [Panel("Ratios", [_ratios(ratios, made), *repeats], note)]


def _ratios(ratios: dict[Metric, Ratio], made: Comparison) -> IntervalPlot:
    named = {_name(metric, ratio): ratio for metric, ratio in ratios.items()}
    rows = [[name, *_numbers(ratio)] for name, ratio in named.items()]
    return IntervalPlot(
        title="Target against baseline",
        summary=" ".join(f"{name} {_figure(ratio)}, {ratio.words}." for name, ratio in named.items()),
        tracks=[_track(name, ratio) for name, ratio in named.items()],
        margin=made.margin,
        samples=Table("Ratios in numbers", _COLUMNS, rows, folded=True),
    )


def _name(metric: Metric, ratio: Ratio) -> str:
    return f"{'FORCED: ' if ratio.forced else ''}{TITLES[metric]}"


def _track(label: str, ratio: Ratio) -> Track:
    interval = (ratio.value, ratio.low, ratio.high, ratio.interval == "runs")
    return Track(label, _figure(ratio), _mark(ratio), tone_of(ratio), *interval)


def _figure(ratio: Ratio) -> str:
    return with_interval(ratio.value, ratio.low, ratio.high)


def _mark(ratio: Ratio) -> str:
    return f"FORCED, {ratio.words}" if ratio.forced else ratio.words


def _numbers(ratio: Ratio) -> list[str]:
    interval, basis = "none", ""
    if ratio.low is not None and ratio.high is not None:
        interval, basis = f"{ratio.low:.4f} to {ratio.high:.4f}", f"{ratio.level:.0%}, {ratio.method}"
    figures = (number(ratio.target_figure), number(ratio.baseline_figure))
    return [f"{ratio.value:.4f}", interval, basis, f"{ratio.margin:.3g}", _mark(ratio), *figures]


def _repeats(metric: Metric, ratio: Ratio, made: Comparison) -> IntervalPlot:
    """Every run against the geometric mean of the baseline's."""
    labels = (label for label, _, _ in labelled(made))  # the target's first; a run may stand on both sides
    rows, tracks = [], []
    for style, side in enumerate((made.target, made.baseline)):
        values = [subject.figures.metric(FIGURE_OF[metric]).value for subject in side.subjects]
        figures = [value for value in values if value is not None]
        base, inverse = ratio.baseline_figure, metric == Metric.MEMORY
        marks = [Mark(next(labels), base / figure if inverse else figure / base) for figure in figures]
        rows += [[mark.label, number(figure), f"{mark.value:.4f}"] for mark, figure in zip(marks, figures, strict=True)]
        runs = f"{len(marks)} run{'s' * (len(marks) != 1)}"
        tracks.append(Track(side.name, runs, _reach(marks), marks=marks, style=style))
    title, columns = _name(metric, ratio), ["run", FIGURE_OF[metric], "of the baseline's mean"]
    interval = f" {words}." if (words := around(ratio)) else ""
    reaches = " ".join(f"{track.label}: {track.figure}, {track.words}." for track in tracks)
    return IntervalPlot(
        title=f"{title}, run by run",
        summary=f"Each run against the geometric mean of the baseline's. {reaches}{interval}",
        tracks=[*tracks, _track("ratio", ratio)],
        margin=made.margin,
        samples=Table(f"{title}, runs in numbers", columns, rows, folded=True),
    )


def _reach(marks: Sequence[Mark]) -> str:
    values = [mark.value for mark in marks]
    if len(values) == 1:
        return f"{values[0]:.4f}"
    share = statistics.stdev(values) / statistics.fmean(values)
    return f"{min(values):.4f} to {max(values):.4f}, deviation {share:.2%}"
