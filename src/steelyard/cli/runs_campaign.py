"""The terminal pages of several runs together: a trend, scaling."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from steelyard import records
from steelyard.campaign.scaling import Count, Larger, Scaling
from steelyard.campaign.trend import Point, Trend
from steelyard.cli import columns, printing
from steelyard.cli.columns import Cells, Column
from steelyard.cli.runs_show import few
from steelyard.comparison.codes import sentence
from steelyard.comparison.intervals import geometric_mean
from steelyard.errors import InputError
from steelyard.records import Run
from steelyard.records.fleet import Fleet, fleets_under, load_fleet
from steelyard.reporting.curves import number

_TREND = (
    Column("verdict", "verdict"),
    Column("name", "name"),
    Column("value", "value", is_number=True),
    Column("bar", "", 1),
    Column("started", "started", 2),
)
_SCALING = (
    Column("nodes", "nodes", is_number=True),
    Column("gpus", "GPUs", 2, is_number=True),
    Column("runs", "runs", 1, is_number=True),
    Column("rate", "tokens/s/GPU", is_number=True),
    Column("tokens", "tokens/step", 3, is_number=True),
    Column("tokens_per_gpu", "tokens/step/GPU", 4, is_number=True),
)


def readable(out: Path) -> Iterator[Run | Fleet]:
    """The runs and fleets in a directory; a note names those that cannot be read."""
    loaders: tuple[tuple[Iterable[Path], Callable[[Path], Run | Fleet]], ...] = (
        (records.runs_under(out), records.load),
        (fleets_under(out), _load_whole),
    )
    for paths, load in loaders:
        for path in paths:
            try:
                yield load(path)
            except InputError as reason:
                printing.note(f"left out: {reason}")


def _load_whole(path: Path) -> Fleet:
    fleet = load_fleet(path)
    fleet.runs()  # raises if one of them cannot be read
    return fleet


def print_trend(trend: Trend, limit: int) -> None:
    """The change from the first to the last run, then one row per run with a bar that starts at zero."""
    printing.item("", _headline(trend))
    shown = trend.points[-limit:] if limit else trend.points
    if hidden := len(trend.points) - len(shown):
        printing.say(f"  {hidden:,} earlier runs not shown; --limit 0 shows all")
    highest = max((abs(point.value) for point in trend.alike() if point.value is not None), default=0.0)
    rows = [
        {
            "verdict": point.verdict or "-",
            "started": point.started[:10],
            "name": point.run.name,
            "value": "-" if point.value is None else number(point.value),
            "bar": _bar(point, highest),
        }
        for point in shown
    ]
    columns.show(_TREND, rows, "  ")
    for point in shown:
        if point.spread is not None:
            printing.item(f"  {point.run.name}: ", point.spread.words, 4)
    without = [point for point in shown if point.value is None]
    for reason in dict.fromkeys(point.reason for point in without if point.reason):
        names = few([point.run.name for point in without if point.reason == reason])
        printing.item(f"  {names}: ", reason, 4)
    for differs in dict.fromkeys(point.differs_in for point in shown if point.differs):
        printing.item("  ", f"another job than the latest run: {differs} differ", 4)


def _bar(point: Point, highest: float) -> str:
    """0 to 20 characters, proportional to the value."""
    if point.differs:
        return "another job"
    value = point.value or 0.0
    return "#" * round(20 * value / highest) if 0 < value <= highest else ""


def _headline(trend: Trend) -> str:
    """`mfu of llama: 0.366 to 0.371 (+1.4%) over 12 runs, range 0.36 to 0.372`."""
    points = [point for point in trend.alike() if point.verdict != "fail"]
    values = [point.value for point in points if point.value is not None]
    left_out = len(trend.points) - len(values)
    others = f"; {left_out} left out (failed, another job or no value)" if left_out else ""
    if not values:
        return f"{trend.metric} of {trend.experiment}: no run has a value{others}"
    if len(values) == 1:
        return f"{trend.metric} of {trend.experiment}: {number(values[0])} in 1 run{others}"
    change = f" ({values[-1] / values[0] - 1:+.1%})" if values[0] else ""
    ends = f"{number(values[0])} in the first run, {number(values[-1])} in the last{change}"
    extent = f"range {number(min(values))} to {number(max(values))} in {len(values)} runs"
    return f"{trend.metric} of {trend.experiment}: {ends}; {extent}{others}. Not a comparison: no CI."


def print_scaling(scaling: Scaling) -> None:
    for larger in scaling.larger:
        printing.item("", _efficiency(larger, scaling.smallest))
    rows = [_cells(scaling.smallest), *(_cells(larger.count) for larger in scaling.larger)]
    columns.show(_SCALING, rows, "  ")
    _say_once(note.message for larger in scaling.larger if larger.efficiency for note in larger.efficiency.notes)
    for larger in scaling.larger:
        for reason in larger.ruling.reasons:
            printing.item(f"  {larger.count.side.called}: ", sentence(reason), 4)


def _cells(count: Count) -> Cells:
    figures = [subject.figures.tokens_per_s_per_gpu.value for subject in count.side.subjects]
    known = [value for value in figures if value is not None]
    share = count.tokens_per_step_per_gpu
    return {
        "nodes": str(count.nodes),
        "gpus": str(count.gpus),
        "runs": str(len(figures)),
        "rate": number(geometric_mean(known)) if len(known) == len(figures) else "-",
        "tokens": "-" if count.tokens_per_step is None else f"{count.tokens_per_step:,}",
        "tokens_per_gpu": "-" if share is None else f"{share:,.6g}",
    }


def _efficiency(larger: Larger, smallest: Count) -> str:
    """`weak scaling: 2 nodes reach 96.1% of the throughput per GPU of 1 node (95% CI 95.0 to 97.2%, 3 and 3 runs)`."""
    kind, ratio = f"{larger.kind or 'unknown'} scaling", larger.efficiency
    names = f"{larger.count.side.called} and {smallest.side.called}"
    if ratio is None:
        return f"{kind}: {names} are {larger.ruling.status.value.replace('_', ' ')}"
    interval = "" if ratio.low is None or ratio.high is None else f"95% CI {100 * ratio.low:.1f} to {ratio.high:.1%}, "
    basis = f"{interval}{ratio.target_runs} and {ratio.baseline_runs} runs"
    share = f"{ratio.value:.1%} of the throughput per GPU of {smallest.side.called}"
    return f"{kind}: {larger.count.side.called} reach {share} ({basis}): {ratio.words}"


def _say_once(notes: Iterator[str]) -> None:
    for note in dict.fromkeys(notes):
        printing.item("  ", note)
