"""A comparison of two suites on the terminal: the mean, then one row per cell."""

import shlex
from collections.abc import Iterator

from steelyard.campaign.suite_comparison import CellPair, SuiteComparison
from steelyard.cli import columns, printing
from steelyard.cli.columns import Cells, Column
from steelyard.cli.printing import Style
from steelyard.comparison import NAME_OF, Metric
from steelyard.errors import Exit
from steelyard.reporting.suite_comparison_page import left_out

_SUBJECT = {Metric.THROUGHPUT: "throughput", Metric.MEMORY: "memory efficiency", Metric.FLOPS: "MFU"}
_MOST_ROWS = 20
_STYLES = {Exit.GOOD: Style.GOOD, Exit.UNKNOWN: Style.DOUBTFUL}


def show(made: SuiteComparison, quiet: bool = False) -> None:
    """One line per asked metric, the cells, and what is left out."""
    if made.banner:
        printing.item("", made.banner, style=Style.STRONG)
    for metric in made.asked:
        line = headline(made, metric)
        printing.say(line, _STYLES.get(made.exit, Style.BAD), len(line.partition(":")[0]))
    if quiet:
        return
    for metric in made.asked:
        if metric in NAME_OF:
            rows = [_row(made, at, metric) for at in range(min(_MOST_ROWS, len(made.pairs)))]
            columns.show(_columns(made, metric), rows, "  ")
    if len(made.pairs) > _MOST_ROWS:
        printing.say(f"  and {len(made.pairs) - _MOST_ROWS} more cells in the report")
    for points in left_out(made, [metric for metric in made.asked if metric in NAME_OF]):
        for point in points.points[:_MOST_ROWS]:
            printing.item("  left out  ", point.text, style=Style.DOUBTFUL)
    if made.directory is not None:
        printing.say(f"next: steelyard report {shlex.quote(str(made.directory))}")


def headline(made: SuiteComparison, metric: Metric) -> str:
    """`mi300x vs h100: +12.3% throughput (geometric mean of 2 of 3 cells, 95% CI +10.1 to +14.6%): faster`."""
    sides, total = f"{made.target} vs {made.baseline}", len(made.pairs)
    if metric == Metric.CONVERGENCE:
        return f"{sides}: {_curves(made)}"
    mean = made.means[metric]
    if mean is None:
        return f"{sides}: no {_SUBJECT[metric]} ratio: no cell of {total} can be compared"
    of_all = f"{mean.cells} cells" if mean.cells == total else f"{mean.cells} of {total} cells"
    interval = _interval(mean.low, mean.high)
    basis = f"geometric mean of {of_all}{f', 95% CI {interval}' if interval else ''}"
    return f"{sides}: {mean.value - 1:+.1%} {_SUBJECT[metric]} ({basis}): {mean.words}"


def _curves(made: SuiteComparison) -> str:
    statuses = [pair.comparison.convergence.status for pair in made.pairs if pair.comparison]
    counts = {status: statuses.count(status) for status in dict.fromkeys(statuses)}
    words = ", ".join(f"{count} {status.replace('_', ' ')}" for status, count in counts.items())
    return f"convergence of {len(statuses)} cells: {words or 'none compared'}"


def _interval(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"{100 * low - 100:+.1f} to {high - 1:+.1%}"


def _columns(made: SuiteComparison, metric: Metric) -> list[Column]:
    return [
        Column("name", "cell"),
        Column("target", made.target, 3, is_number=True),
        Column("baseline", made.baseline, 3, is_number=True),
        Column("ratio", _SUBJECT[metric], is_number=True),
        Column("interval", "95% CI", 2),
        Column("runs", "runs", 4),
        Column("words", "among all cells", 1),
    ]


def _row(made: SuiteComparison, at: int, metric: Metric) -> Cells:
    pair = made.pairs[at]
    cells = dict.fromkeys(("target", "baseline", "ratio", "interval", "runs", "words"), "-")
    cells["name"] = pair.label
    cells |= dict(_absent(pair))
    ratio = pair.ratio(metric)
    if ratio is None:
        if pair.comparison is not None:
            cells["words"] = pair.comparison.comparable[metric].status.value.replace("_", " ")
        return cells
    figures = {"target": ratio.target_figure, "baseline": ratio.baseline_figure}
    form = "{:.1%}" if metric == Metric.FLOPS else "{:,.1f}" if metric == Metric.MEMORY else "{:,.0f}"
    cells |= {side: form.format(value) for side, value in figures.items()}
    cells |= {"runs": f"{ratio.target_runs} + {ratio.baseline_runs}", "ratio": f"{ratio.value - 1:+.1%}"}
    cells["interval"] = _interval(ratio.low, ratio.high) or "-"
    cells["words"] = made.adjusted[metric][at] or ratio.words
    return cells


def _absent(pair: CellPair) -> Iterator[tuple[str, str]]:
    for name, side in (("target", pair.target), ("baseline", pair.baseline)):
        if side is not None:
            yield name, side.absence.words
