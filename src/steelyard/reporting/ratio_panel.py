"""The ratios as a plot: each with its interval, 1, the smallest difference that matters, and every run."""

import statistics
from collections.abc import Iterable, Sequence

from steelyard.comparison import NAME_OF, Comparison, Metric, Ratio
from steelyard.comparison.ratios import FIGURE_OF
from steelyard.reporting.claims import tone_of
from steelyard.reporting.curves import number, per_device, with_interval
from steelyard.reporting.page import IntervalPlot, Mark, Panel, Table, Track
from steelyard.reporting.sides import labeled, side_names

TITLES = {
    Metric.THROUGHPUT: "Throughput speedup",
    Metric.MEMORY: "Memory usage efficiency",
    Metric.FLOPS: "FLOPs utilization",
}
_DEFINITIONS = {
    Metric.THROUGHPUT: "Tokens/s per GPU of {target}, divided by those of {baseline}.",
    Metric.MEMORY: "Peak memory of {baseline}, divided by that of {target}.",
    Metric.FLOPS: "MFU of {target}, divided by that of {baseline}.",
}


def ratio_panels(made: Comparison) -> tuple[list[Panel], list[Panel]]:
    """The ratios that were asked, and the others, folded. A metric without a ratio is left out."""
    asked = _panel(made, "Ratios", (metric for metric in made.asked if metric in NAME_OF), folded=False)
    others = [metric for metric in NAME_OF if metric not in made.asked]
    names = " and ".join(TITLES[metric].lower() for metric in others if made.ratios[metric] is not None)
    return asked, _panel(made, f"Not asked: {names.replace('flops', 'FLOPs')}", others, folded=True)


def _panel(made: Comparison, title: str, metrics: Iterable[Metric], folded: bool) -> list[Panel]:
    ratios = {metric: ratio for metric in metrics if (ratio := made.ratios[metric]) is not None}
    if not ratios:
        return []
    target, baseline = side_names(made)
    subjects = [subject for side in made.sides for subject in side.subjects]
    texts = (_DEFINITIONS[metric].format(target=target, baseline=baseline) for metric in ratios)
    definitions = per_device(" ".join(texts), subjects)
    note = (
        f"{definitions} Above 1 is better for {target}. Shaded: differences within {made.margin:.3g}, too small to "
        "matter. Solid line: CI between runs. Broken line: CI within these runs only."
    )
    several = {metric: r for metric, r in ratios.items() if max(r.target_runs, r.baseline_runs) > 1}
    single = {metric: ratio for metric, ratio in ratios.items() if metric not in several}
    plots = [_ratios(single, made)] if single else []
    return [Panel(title, [*plots, *(_repeats(metric, ratio, made) for metric, ratio in several.items())], note, folded)]


def _ratios(ratios: dict[Metric, Ratio], made: Comparison) -> IntervalPlot:
    names = side_names(made)
    columns = ["ratio", "value", "CI", "basis of the CI", "margin", "conclusion", *names]
    labels = {TITLES[metric]: ratio for metric, ratio in ratios.items()}
    rows = [[name, *_numbers(ratio)] for name, ratio in labels.items()]
    return IntervalPlot(
        title=f"{names[0]} compared with {names[1]}",
        summary=" ".join(f"{name} {_figure(ratio)}, {ratio.words}." for name, ratio in labels.items()),
        tracks=[_track(name, ratio) for name, ratio in labels.items()],
        margin=made.margin,
        samples=Table("Ratios in numbers", columns, rows, folded=True),
    )


def _track(label: str, ratio: Ratio) -> Track:
    interval = (ratio.value, ratio.low, ratio.high, ratio.interval == "runs")
    return Track(label, _figure(ratio), ratio.words, tone_of(ratio), *interval)


def _figure(ratio: Ratio) -> str:
    return with_interval(ratio.value, ratio.low, ratio.high)


def _numbers(ratio: Ratio) -> list[str]:
    interval, basis = "none", ""
    if ratio.low is not None and ratio.high is not None:
        interval, basis = f"{ratio.low:.4f} to {ratio.high:.4f}", f"{ratio.level:.0%}, {ratio.method}"
    figures = (number(ratio.target_figure), number(ratio.baseline_figure))
    return [f"{ratio.value:.4f}", interval, basis, f"{ratio.margin:.3g}", ratio.words, *figures]


def _repeats(metric: Metric, ratio: Ratio, made: Comparison) -> IntervalPlot:
    """Every run, divided by the geometric mean of the baseline."""
    target, baseline = side_names(made)
    labels = (label for label, _, _ in labeled(made))  # target first
    rows, tracks = [], []
    for style, (name, side) in enumerate(zip((target, baseline), made.sides, strict=True)):
        values = [subject.figures.metric(FIGURE_OF[metric]).value for subject in side.subjects]
        figures = [value for value in values if value is not None]
        base, inverse = ratio.baseline_figure, metric == Metric.MEMORY
        marks = [Mark(next(labels), base / figure if inverse else figure / base) for figure in figures]
        rows += [[mark.label, number(figure), f"{mark.value:.4f}"] for mark, figure in zip(marks, figures, strict=True)]
        runs = f"{len(marks)} run{'s' * (len(marks) != 1)}"
        tracks.append(Track(name, runs, _reach(marks), marks=marks, style=style))
    title, columns = TITLES[metric], ["run", FIGURE_OF[metric], f"divided by the mean of {baseline}"]
    reaches = " ".join(f"{track.label}: {track.figure}, {track.words}." for track in tracks)
    return IntervalPlot(
        title=title,
        summary=f"{title} {_figure(ratio)}, {ratio.words}. Each run by the geometric mean of {baseline}: {reaches}",
        tracks=[_track("ratio", ratio), *tracks],
        margin=made.margin,
        samples=Table(f"{title} in numbers", columns, rows, folded=True),
    )


def _reach(marks: Sequence[Mark]) -> str:
    values = [mark.value for mark in marks]
    if len(values) == 1:
        return f"{values[0]:.4f}"
    share = statistics.stdev(values) / statistics.fmean(values)
    return f"{min(values):.4f} to {max(values):.4f}, standard deviation {share:.2%}"
