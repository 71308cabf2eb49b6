"""The report of a comparison of two suites: the mean ratios, and every cell."""

from collections.abc import Iterator, Sequence

from steelyard.campaign.saved_suites import commands
from steelyard.campaign.suite_comparison import CellPair, Mean, SuiteComparison
from steelyard.campaign.suite_matching import OBSERVED
from steelyard.comparison import NAME_OF, Comparability, Metric
from steelyard.comparison.codes import sentence
from steelyard.comparison.headline import lines
from steelyard.errors import Exit
from steelyard.reasons import Reason
from steelyard.reporting.claims import tone_of
from steelyard.reporting.curves import number, with_interval
from steelyard.reporting.page import Answer, Block, Cell, IntervalPlot, Page, Panel, Point, Points, Table, Tone, Track
from steelyard.reporting.ratio_panel import TITLES
from steelyard.reporting.run_page import EXPANDED

_WORDS = {
    Exit.GOOD: ("decided", Tone.GOOD),
    Exit.FAILED: ("not equivalent", Tone.BAD),
    Exit.NOT_COMPARABLE: ("not comparable", Tone.BAD),
    Exit.UNKNOWN: ("undecided", Tone.UNSURE),
}
_UNITS = {Metric.THROUGHPUT: "tokens/s per GPU", Metric.MEMORY: "GiB per GPU", Metric.FLOPS: "MFU"}
_MOST_TRACKS = 40
"""Cells in a plot; the table has all."""


def suite_comparison_page(made: SuiteComparison) -> Page:
    word, tone = _WORDS[made.exit]
    answers = [Answer(*_answer(made, metric)) for metric in made.asked]
    compared = sum(pair.comparison is not None for pair in made.pairs)
    return Page(
        kind="comparison",
        title=f"{made.target} vs {made.baseline}",
        subject=f"{len(made.pairs)} cells, {compared} with figures on both sides",
        verdict=answers[0].word if len(answers) == 1 else word,
        tone=answers[0].tone if len(answers) == 1 else tone,
        sentence=answers[0].text,
        answers=answers if len(answers) > 1 else (),
        blocks=list(_blocks(made)),
        commands=list(commands(made)),
        banner=made.banner or "",
        commands_note=EXPANDED,
    )


def _answer(made: SuiteComparison, metric: Metric) -> tuple[str, Tone, str]:
    """One word, its tone, and a sentence."""
    if metric == Metric.CONVERGENCE:
        statuses = [pair.comparison.convergence.status for pair in made.pairs if pair.comparison]
        good = bool(statuses) and set(statuses) == {"equivalent"}
        words = f"{statuses.count('equivalent')} of {len(statuses)} compared cells converge alike."
        return ("equivalent", Tone.GOOD, words) if good else ("see cells", Tone.UNSURE, words)
    mean = made.means[metric]
    if mean is None:
        return "not comparable", Tone.BAD, f"No cell has a ratio of {metric.value} on both sides."
    tone = Tone.UNSURE if not mean.outcome.decided else Tone.NOTE if mean.outcome.below else Tone.GOOD
    return mean.words, tone, mean_sentence(made, metric, mean)


def mean_sentence(made: SuiteComparison, metric: Metric, mean: Mean) -> str:
    """`Throughput speedup of mi300x over h100: 1.12 [1.10, 1.14], geometric mean of 5 of 6 cells.`"""
    of_all = f"{mean.cells} of {len(made.pairs)} cells"
    interval = " (95% CI)" if mean.low is not None else ", without a CI"
    figure = with_interval(mean.value, mean.low, mean.high)
    return f"{TITLES[metric]} of {made.target} over {made.baseline}: {figure}{interval}, geometric mean of {of_all}."


def _blocks(made: SuiteComparison) -> Iterator[Block]:
    asked = [metric for metric in made.asked if metric in NAME_OF]
    for metric in asked:
        yield from _panel(made, metric, folded=False)
        yield _table(made, metric, folded=False)
    if Metric.CONVERGENCE in made.asked:
        yield _convergence(made)
    yield from left_out(made, asked)
    for metric in NAME_OF:
        if metric not in asked:
            yield _table(made, metric, folded=True)


def _panel(made: SuiteComparison, metric: Metric, folded: bool) -> Iterator[Panel]:
    if made.means[metric] is None:
        return
    note = (
        f"Above 1 is better for {made.target}. Shaded: differences within {made.margin:.3g}, too small to matter. "
        "The words of a cell are adjusted for the number of cells (Holm)."
    )
    yield Panel(TITLES[metric], [ratio_plot(made, metric)], note, folded)


def ratio_plot(made: SuiteComparison, metric: Metric) -> IntervalPlot:
    """The mean, then every cell with a ratio."""
    mean = made.means[metric]
    assert mean is not None
    figure = with_interval(mean.value, mean.low, mean.high)
    tone = Tone.UNSURE if not mean.outcome.decided else Tone.NOTE if mean.outcome.below else Tone.GOOD
    tracks = [Track("geometric mean", figure, mean.words, tone, mean.value, mean.low, mean.high, between_runs=True)]
    for at, pair in enumerate(made.pairs[:_MOST_TRACKS]):
        if (ratio := pair.ratio(metric)) is not None:
            words = made.adjusted[metric][at] or ratio.words
            interval = (ratio.value, ratio.low, ratio.high, ratio.interval == "runs")
            tracks.append(Track(pair.label, with_interval(*interval[:3]), words, tone_of(ratio), *interval))
    rows = [[track.label, track.figure] for track in tracks]
    return IntervalPlot(
        title=f"{TITLES[metric]} by cell",
        summary=mean_sentence(made, metric, mean),
        tracks=tracks,
        margin=made.margin,
        samples=Table(f"{TITLES[metric]} in numbers", ["cell", "ratio"], rows, folded=True),
    )


def _table(made: SuiteComparison, metric: Metric, folded: bool) -> Table:
    columns = [
        "cell",
        f"{made.target}, {_UNITS[metric]}",
        f"{made.baseline}, {_UNITS[metric]}",
        "ratio",
        "95% CI",
        "runs",
    ]
    rows = [_row(made, at, metric) for at in range(len(made.pairs))]
    return Table(f"{TITLES[metric]} by cell", [*columns, "conclusion"], rows, folded=folded)


def _row(made: SuiteComparison, at: int, metric: Metric) -> list[str | Cell]:
    pair = made.pairs[at]
    ratio = pair.ratio(metric)
    if ratio is None:
        return [pair.label, *_absences(pair), "", "", "", _why_not(pair, metric)]
    interval = "" if ratio.low is None or ratio.high is None else f"{ratio.low:.4f} to {ratio.high:.4f}"
    figures = [figure_text(value, metric) for value in (ratio.target_figure, ratio.baseline_figure)]
    words = Cell(made.adjusted[metric][at] or ratio.words, tone_of(ratio))
    return [pair.label, *figures, f"{ratio.value:.4f}", interval, f"{ratio.target_runs} + {ratio.baseline_runs}", words]


def figure_text(value: float, metric: Metric) -> str:
    return f"{value:.1%}" if metric == Metric.FLOPS else number(value, padded=True)


def _absences(pair: CellPair) -> list[str | Cell]:
    """The sides of a cell without a ratio."""
    sides = (pair.target, pair.baseline)
    return ["" if side is None else Cell(side.absence.words, Tone.UNSURE, note=side.memory_words) for side in sides]


def _why_not(pair: CellPair, metric: Metric) -> Cell:
    if pair.comparison is None:
        return Cell("no ratio", Tone.UNSURE)
    ruling = pair.comparison.comparable[metric]
    tone = Tone.BAD if ruling.status == Comparability.NOT_COMPARABLE else Tone.UNSURE
    why = sentence(ruling.reasons[0]) if ruling.reasons else ""
    return Cell(f"not compared: {ruling.status.value.replace('_', ' ')}", tone, note=why)


def _convergence(made: SuiteComparison) -> Table:
    rows: list[list[str | Cell]] = []
    for pair in made.pairs:
        if pair.comparison is None:
            rows.append([pair.label, "no curves on one side", ""])
            continue
        line = next(line for line in lines(pair.comparison) if Metric.CONVERGENCE in line.metrics)
        rows.append([pair.label, pair.comparison.convergence.status.replace("_", " "), str(line)])
    return Table("Convergence by cell", ["cell", "status", "why"], rows)


def left_out(made: SuiteComparison, metrics: Sequence[Metric]) -> list[Points]:
    """Cells that are not in a mean, and cells without an interval; those with the same reason share a line."""
    cells: dict[str, list[str]] = {}
    for metric in metrics:
        for reason in made.left_out[metric]:
            named = cells.setdefault(without_cell(reason), [])
            if reason.values["cell"] not in named:
                named.append(reason.values["cell"])
    points = [Point(f"{why}: {'; '.join(names)}") for why, names in cells.items()]
    return [Points("Cells left out of the mean, or without an interval", points)] if points else []


def without_cell(reason: Reason) -> str:
    """A reason without the cell that it is about."""
    values = reason.values
    if reason.code is OBSERVED:
        return str(values["words"])
    return f"{values['words']} on {values['side']}" if "side" in values else f"{values['status']}: {values['why']}"
