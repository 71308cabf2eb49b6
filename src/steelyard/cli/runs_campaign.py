"""What several runs tell together, on the terminal: a trend, how a job scales, a family of jobs."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from steelyard import records
from steelyard.campaign.family import Family
from steelyard.campaign.scaling import Count, Larger, Scaling
from steelyard.campaign.trend import Trend
from steelyard.cli import printing
from steelyard.cli.comparison import ratio_words
from steelyard.comparison.codes import sentence
from steelyard.comparison.intervals import geometric_mean
from steelyard.errors import InputError
from steelyard.records import Run
from steelyard.records.fleet import Fleet, fleets_under, load_fleet
from steelyard.reporting.curves import number, with_interval
from steelyard.reporting.trend_page import sentence as trend_sentence


def readable(out: Path) -> Iterator[Run | Fleet]:
    """The runs and fleets under a directory; one that cannot be read is said."""
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
    fleet.runs()  # raises where one of them cannot be read
    return fleet


def print_trend(trend: Trend) -> None:
    """A bar a run, from zero, so that lengths mean what they seem to."""
    highest = max((point.value for point in trend.alike() if point.value is not None), default=1.0)
    width = max(len(point.run.name) for point in trend.points)
    for point in trend.points:
        value = "unknown" if point.value is None else number(point.value)
        if point.differs:
            text = f"another job: {point.differs_in} differ"
        else:
            text = "#" * round(30 * point.value / highest) if point.value is not None else point.reason or ""
        if point.spread is not None:
            text = f"{text}  {point.spread.words}"
        printing.say(f"{point.run.name:<{width}}  {point.verdict or '-':<7}  {value:>10}  {text}")
    printing.item("", trend_sentence(trend))


def print_scaling(scaling: Scaling) -> None:
    printing.say(f"{scaling.kind or 'unknown'} scaling, against {scaling.smallest.side.called}")
    head = ["nodes", "gpus", "runs", "tokens a step", "a GPU", "tokens/s a GPU", "efficiency"]
    first = [*_cells(scaling.smallest), "1, by definition"]
    printing.table([head, first, *([*_cells(larger.count), _efficiency(larger)] for larger in scaling.larger)], "  ")
    for larger in scaling.larger:
        for reason in larger.ruling.reasons:
            printing.item(f"  {larger.count.side.called}: ", sentence(reason), 4)
    _say_once(note.message for larger in scaling.larger if larger.efficiency for note in larger.efficiency.notes)


def _cells(count: Count) -> Sequence[str]:
    figures = [subject.figures.tokens_per_s_per_gpu.value for subject in count.side.subjects]
    known = [value for value in figures if value is not None]
    share = count.tokens_per_step_per_gpu
    return [
        str(count.nodes),
        str(count.gpus),
        str(len(figures)),
        "-" if count.tokens_per_step is None else f"{count.tokens_per_step:,}",
        "-" if share is None else f"{share:,.6g}",
        number(geometric_mean(known)) if len(known) == len(figures) else "-",
    ]


def _efficiency(larger: Larger) -> str:
    return ratio_words(larger.efficiency) if larger.efficiency else larger.ruling.status.value.replace("_", " ")


def _say_once(notes: Iterator[str]) -> None:
    for note in dict.fromkeys(notes):
        printing.item("  ", note)


def print_family(family: Family) -> None:
    printing.table([["comparison", "runs", "speedup", "by itself", "in the family"], *_rows(family)])
    for reason in family.reasons:
        printing.item("  ", reason.message)
    if (speedup := family.speedup) is None:
        printing.say("no speedup over all: to leave one out would be to choose")
        return
    printing.say(f"speedup over all {with_interval(speedup.value, speedup.low, speedup.high)}  {speedup.words}")
    printing.say("  the geometric mean of these jobs; it says nothing of others")
    _say_once(note.message for member in family.members if member.ratio for note in member.ratio.notes)


def _rows(family: Family) -> Iterator[list[str]]:
    for member, alone, adjusted in zip(family.members, family.alone, family.adjusted, strict=True):
        name, ratio = member.directory.resolve().name, member.ratio
        if ratio is None:
            yield [name, "-", "-", member.status.value.replace("_", " "), "-"]
        else:
            runs = f"{ratio.target_runs} and {ratio.baseline_runs}"
            yield [name, runs, with_interval(ratio.value, ratio.low, ratio.high), alone or "-", adjusted or "-"]
