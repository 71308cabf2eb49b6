"""The results of a comparison: a table, sentences and figures per metric."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from steelyard.campaign.suite_comparison import Absence
from steelyard.comparison import NAME_OF, Comparison, Metric, Ratio
from steelyard.comparison.headline import PHRASES, line_of, short
from steelyard.comparison.intervals import Outcome
from steelyard.comparison.phrases import compared, figure, listed, percent, plain_percent, plural
from steelyard.comparison.ratios import FIGURE_OF
from steelyard.reporting.curves import per_device
from steelyard.reporting.page import as_sentence, typeset
from steelyard.reporting.paper import Block, Heading, PaperFigure, PaperTable, Paragraph, Ref, listed_refs
from steelyard.reporting.paper.cells import Cell, Cells, SideCell
from steelyard.reporting.paper.drawings import bars, ratio_text, scaled, scaling_blocks
from steelyard.reporting.paper.setup import capacity, share_of
from steelyard.reporting.ratio_panel import TITLES

NAMES = {
    Metric.THROUGHPUT: "throughput",
    Metric.MEMORY: "memory",
    Metric.FLOPS: "FLOPs utilization",
    Metric.CONVERGENCE: "convergence",
}
_RATIOS = {Metric.THROUGHPUT: "Speedup", Metric.MEMORY: "Efficiency", Metric.FLOPS: "Ratio"}
"""Heads of columns."""
_NARROW = 16
"""Characters of a name that does not wrap."""


@dataclass(frozen=True, slots=True)
class _Column:
    """How a table shows one side of a cell."""

    caption: str
    text: Callable[[SideCell], str]


def _rate(cell: SideCell) -> str:
    value = cell.mean(FIGURE_OF[Metric.THROUGHPUT])
    return "unknown" if value is None else figure(value)


def _memory(cell: SideCell) -> str:
    value = cell.mean(FIGURE_OF[Metric.MEMORY])
    return "unknown" if value is None else share_of(value, capacity(cell.subjects))


def _compute(cell: SideCell) -> str:
    mfu, tflops = cell.mean(FIGURE_OF[Metric.FLOPS]), cell.mean("tflops_per_gpu")
    if mfu is None:
        return "unknown"
    return f"{percent(mfu)} ({figure(tflops)})" if tflops is not None else percent(mfu)


_COLUMNS = {
    Metric.THROUGHPUT: _Column("Throughput, tokens/s per GPU.", _rate),
    Metric.MEMORY: _Column("Peak memory, GiB per GPU, and its share of the memory of the GPU.", _memory),
    Metric.FLOPS: _Column("Model FLOPs utilization, and achieved TFLOP/s per GPU.", _compute),
}


def result_blocks(made: Cells) -> Iterator[Block]:
    metrics = [*(metric for metric in made.asked if metric in NAME_OF)]
    metrics += [metric for metric in NAME_OF if metric not in metrics]
    if absences := list(absence_sentences(made)):
        yield Paragraph([" ".join(absences)])
    for at, metric in enumerate(metrics):
        yield Heading(TITLES[metric])
        yield from _of_metric(made, metric, metrics[:at])
    if Metric.CONVERGENCE in made.asked:
        yield Heading("Convergence")
        yield from _convergence(made)
    yield from scaling_blocks(scaled(made.groups, [cell.values for cell in made.cells]))
    yield from _curves(made)


def _curves(made: Cells) -> Iterator[Block]:
    """The plots by step of a single cell."""
    if made.only is None:
        return
    drawn = [made.drawings[title] for title in ("Loss", "Throughput") if title in made.drawings]
    figures = [PaperFigure(f"{drawing.title} of all runs by step.", drawing) for drawing in drawn]
    if figures:
        names = listed([drawing.title.lower() for drawing in drawn])
        be = "shows" if len(figures) == 1 else "show"
        yield Heading("Course of the runs")
        yield Paragraph(
            [*listed_refs([Ref("Figure", block.label) for block in figures]), f" {be} the {names} by step."]
        )
        yield from figures


def _of_metric(made: Cells, metric: Metric, earlier: Sequence[Metric]) -> Iterator[Block]:
    text = " ".join(metric_sentences(made, metric, earlier))
    if all(side.absent is None and side.mean(FIGURE_OF[metric]) is None for cell in made.cells for side in cell.sides):
        yield Paragraph([text])  # a table would have no figure
        return
    drawn, table = list(_figures(made, metric)), _table(made, metric)
    refs = listed_refs([Ref("Figure", block.label) for block in drawn])
    shown = [", and ", *refs, " show them" if len(drawn) > 1 else " shows them"] if drawn else []
    yield Paragraph([f"{text} ", Ref("Table", table.label), " lists the figures", *shown, "."])
    yield table
    yield from drawn


def metric_sentences(made: Cells, metric: Metric, earlier: Sequence[Metric]) -> Iterator[str]:
    """The answer of one metric, after those of earlier ones."""
    if made.only is not None:
        yield answer(made.only, metric, earlier)
        return
    yield mean_sentence(made, metric)
    if ratios := made.ratios(metric):
        yield _range(ratios)


def answer(made: Comparison, metric: Metric, earlier: Sequence[Metric] = ()) -> str:
    """The sentence of a comparison about one metric; the reason of an earlier metric is not repeated."""
    ruling = made.comparable[metric]
    if not ruling.holds:
        same = next((other for other in earlier if made.comparable[other].reasons[:1] == ruling.reasons[:1]), None)
        if same is not None:
            return f"{capital(NAMES[metric])} is not compared, for the same reason as {NAMES[same]}."
        return f"{capital(NAMES[metric])} is not compared, because {as_sentence(short(ruling.reasons[0]))}"
    line = typeset(str(line_of(made, metric)))
    return as_sentence(f"Convergence is {line[:1].lower()}{line[1:]}" if metric == Metric.CONVERGENCE else line)


def mean_sentence(made: Cells, metric: Metric) -> str:
    """`h200 is 13.7% faster than mi300x (geometric mean of 2 cells, 95% CI 12.8 to 14.5%).`"""
    mean = made.means[metric]
    if mean is None:
        return f"No cell has a ratio of {NAMES[metric]}."
    phrases, of_memory = PHRASES[metric], metric == Metric.MEMORY
    bounds = (mean.high, mean.low) if of_memory else (mean.low, mean.high)
    change, low, high = (1 / each if each and of_memory else each for each in (mean.value, *bounds))
    assert change is not None
    difference, interval = compared(change, low, high, phrases.more, phrases.less)
    cells = f"geometric mean of {mean.cells} cells" if mean.cells > 1 else f"one of {len(made.cells)} cells"
    basis = ", ".join(filter(None, (cells, interval)))
    if not mean.outcome.decided:
        ratio = ratio_text(mean.value, mean.low, mean.high)
        return f"The ratio of {NAMES[metric]} is {ratio} ({cells}): {mean.words}."
    if mean.outcome == Outcome.EQUIVALENT:
        return f"{phrases.equal.format(*made.names)} within {plain_percent(made.margin)} ({basis})."
    words = phrases.decided.format(*made.names, difference=difference)
    sure = mean.outcome in (Outcome.BETTER, Outcome.WORSE)
    doubt = "" if sure else f"; the difference may be below {plain_percent(made.margin)}"
    return f"{words} ({basis}){doubt}."


def _range(ratios: Sequence[tuple[Cell, Ratio]]) -> str:
    lowest = min(ratios, key=lambda entry: entry[1].value)
    highest = max(ratios, key=lambda entry: entry[1].value)
    low, high = (f"{ratio.value:.3f}" for _, ratio in (lowest, highest))
    if low == high:
        where = f"in the only compared cell ({lowest[0].label})" if len(ratios) == 1 else "in every compared cell"
        return f"The ratio is {low} {where}."
    return f"The ratio ranges from {low} ({lowest[0].label}) to {high} ({highest[0].label})."


def absence_sentences(made: Cells) -> Iterator[str]:
    """Cells that one side or both did not complete."""
    for cell in made.cells:
        absent = {name: side.absent for name, side in zip(made.names, cell.sides, strict=True) if side.absent}
        words = [_absence(name, side.absence, side.memory_words) for name, side in absent.items()]
        if not words:
            continue
        fits = [
            f"; {name} fits with {figure(gib)} GiB per GPU"
            for name, side in zip(made.names, cell.sides, strict=True)
            if side.absent is None and (gib := side.mean(FIGURE_OF[Metric.MEMORY])) is not None
        ]
        yield f"With {cell.label}, {' and '.join(words)}{''.join(fits)}."


def _absence(name: str, absence: Absence, memory: str) -> str:
    basis = f" ({memory})" if memory else ""
    match absence:
        case Absence.OOM:
            return f"{name} runs out of memory{basis}"
        case Absence.SKIPPED:
            return f"{name} was not run, because the plan exceeds the memory of the GPU{basis}"
        case Absence.MISSING:
            return f"{name} was not run"


def _table(made: Cells, metric: Metric) -> PaperTable:
    target, baseline = made.names
    keys = made.columns()
    rows = [[*(texts[at] for _, texts in keys), *_row(made, cell, metric)] for at, cell in enumerate(made.cells)]
    if (mean := made.means[metric]) is not None and mean.cells > 1:
        blank = [""] * (len(keys) + 1)
        figures = [ratio_text(mean.value, mean.low, mean.high), f"{mean.cells} cells", mean.words]
        rows.append(["Geometric mean", *blank, *figures])
    bounded = any(ratio.interval == "runs" and ratio.low is not None for _, ratio in made.ratios(metric))
    head = f"{_RATIOS[metric]}{' [95% CI]' * bounded}"
    columns = [*(title for title, _ in keys), target, baseline, head, "Runs", "Conclusion"]
    subjects = [subject for side in (0, 1) for subject in made.subjects(side)]
    caption = per_device(_COLUMNS[metric].caption, subjects)
    adjusted = " Conclusions are adjusted for the number of cells." if len(made.cells) > 1 else ""
    notes = [] if made.only else list(_notes(made, metric))
    wraps = [at for at, (_, texts) in enumerate(keys) if max(map(len, texts)) > _NARROW]
    return PaperTable(metric.value, f"{caption}{adjusted}", columns, rows, notes, words=(*wraps, len(columns) - 1))


def _row(made: Cells, cell: Cell, metric: Metric) -> list[str]:
    sides = [side_text(side, metric) for side in cell.sides]
    ratio = cell.ratio(metric)
    if ratio is None:
        return [*sides, "", _runs(cell), "not compared"]
    bounds = (ratio.low, ratio.high) if ratio.interval == "runs" else (None, None)
    words = cell.adjusted[metric] or ratio.words
    return [*sides, ratio_text(ratio.value, *bounds), _runs(cell), words]


def side_text(side: SideCell, metric: Metric) -> str:
    """The figures of one side of a cell, or OOM."""
    return side.absent.absence.words if side.absent else _COLUMNS[metric].text(side)


def _runs(cell: Cell) -> str:
    return " + ".join(str(len(side.subjects)) for side in cell.sides)


def _notes(made: Cells, metric: Metric) -> Iterator[str]:
    """Why cells have no ratio."""
    for cell in made.cells:
        for name, side in zip(made.names, cell.sides, strict=True):
            if side.absent is not None:
                yield f"{capital(cell.label)}: {side.absent.words} on {name}."
        if cell.comparison is not None and cell.ratio(metric) is None:
            reason = cell.comparison.comparable[metric].reasons[0]
            yield as_sentence(f"{capital(cell.label)}: not compared, because {short(reason)}")
    if any(side.absent and side.absent.absence != Absence.MISSING for cell in made.cells for side in cell.sides):
        yield "OOM: out of memory."


def capital(text: str) -> str:
    return text if any(char in text.split(" ", 1)[0] for char in "._-0123456789") else f"{text[:1].upper()}{text[1:]}"


def _figures(made: Cells, metric: Metric) -> Iterator[PaperFigure]:
    target, baseline = made.names
    of_all = "" if made.only else " by cell"
    if (plot := made.drawings.get(f"{TITLES[metric]}{of_all}")) is not None:
        runs = f", and of each run over the mean of {baseline}" if made.only else ""
        meaning = f"Above 1 is better for {target}; shaded: differences within {plain_percent(made.margin)}."
        yield PaperFigure(f"{TITLES[metric]} of {target} over {baseline}{of_all}{runs}, with 95% CI. {meaning}", plot)
    places = [cell.label for cell in made.cells]
    if (made.only is None or metric == Metric.FLOPS) and (chart := bars(metric, places, made.groups)) is not None:
        yield PaperFigure(CAPTIONS[metric], chart)


CAPTIONS = {
    Metric.THROUGHPUT: "Throughput by cell; lines in a bar are runs.",
    Metric.MEMORY: "Peak memory by cell, and the memory of the GPUs.",
    Metric.FLOPS: "Achieved model FLOP rate, and the dense peaks of the data sheets.",
}


def _convergence(made: Cells) -> Iterator[Block]:
    if made.only is not None:
        yield Paragraph([answer(made.only, Metric.CONVERGENCE, [*NAME_OF])])
        return
    yield Paragraph([f"{alike_sentence(made)} ", Ref("Table", "convergence"), " has the reasons."])
    rows = [
        [cell.label, cell.comparison.convergence.status.replace("_", " "), answer(cell.comparison, Metric.CONVERGENCE)]
        for cell in made.cells
        if cell.comparison is not None
    ]
    yield PaperTable("convergence", "Convergence by cell.", ["Cell", "Result", "Reason"], rows, words=(2,))


def alike_sentence(made: Cells) -> str:
    """How many cells converge alike."""
    statuses = [comparison.convergence.status for comparison in made.compared]
    return f"{statuses.count('equivalent')} of {plural(len(statuses), 'compared cell')} converge alike."


def refusal_sentences(made: Comparison) -> Iterator[str]:
    """`Throughput and memory are not compared, because …`."""
    refused: dict[str, list[Metric]] = {}
    for metric in made.asked:
        if not (ruling := made.comparable[metric]).holds:
            refused.setdefault(short(ruling.reasons[0]), []).append(metric)
    for why, metrics in refused.items():
        names = listed([NAMES[metric] for metric in metrics])
        be = "is" if len(metrics) == 1 else "are"
        yield as_sentence(f"{capital(names)} {be} not compared, because {why}")
