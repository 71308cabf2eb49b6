"""The content of a report, independent of its format: every format renders the same page."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from steelyard import __version__

CODE = re.compile(r"(?<!`)`([\w.:= -]{1,80})`(?!`)")
"""A key or a command in a sentence. The characters are limited so that text of a log cannot hide in it."""


def as_sentence(text: str, capital: bool = False) -> str:
    """With its full stop, and with a capital unless it starts with a key."""
    first = text.split(" ", 1)[0]
    if capital and not any(sign in first for sign in "._{"):
        text = f"{text[:1].upper()}{text[1:]}"
    return text if text.endswith(".") else f"{text}."


def typeset(text: str) -> str:
    """A sentence of a check or a tier with the signs of print."""
    return text.replace(" +- ", " \N{PLUS-MINUS SIGN} ")


class Tone(StrEnum):
    """How a word is meant; formats show it by color and by a sign."""

    GOOD = "good"
    BAD = "bad"
    UNSURE = "unsure"
    NOTE = "note"
    PLAIN = "plain"


@dataclass(frozen=True, slots=True)
class LogLine:
    number: int
    text: str


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Lines of a file of the run, around the one that is the evidence."""

    file: str
    line: int
    lines: Sequence[LogLine] = ()
    """Empty where the file cannot be read or is too long."""
    note: str = ""
    """What a reader would look for in the line in vain."""

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Cell:
    text: str
    tone: Tone = Tone.PLAIN
    href: str | None = None
    """URL of another report, relative to this one."""
    excerpt: Excerpt | None = None
    """What the text is based on, below it."""
    note: str = ""
    """A remark below the text."""


@dataclass(frozen=True, slots=True)
class Tile:
    name: str
    value: str
    unit: str
    note: str
    """What the value rests on, or why it is unknown."""
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True)
class Tiles:
    """The most important figures, in large type."""

    title: str
    tiles: Sequence[Tile]


@dataclass(frozen=True, slots=True)
class Table:
    """A titled table; `folded` where a reader opens it on demand and paper leaves it out."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str | Cell]]
    note: str = ""
    folded: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """Tables under one heading."""

    title: str
    tables: Sequence[Table]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """A curve, thinned without losing a spike; None breaks it."""

    label: str
    x: Sequence[int]
    y: Sequence[float | None]
    broken: Sequence[tuple[int, int]] = ()
    """First and last step of each stretch in which the value was NaN or infinite."""
    style: int = 0
    """Curves of one style belong to one side."""
    shade: int = 0
    """Tells the repeats of a side apart."""
    tokens: int | None = None
    """Tokens per step, for an axis in tokens; None where unknown."""


@dataclass(frozen=True, slots=True)
class Level:
    """A horizontal line to compare a curve with: a floor, a predicted first loss, a threshold."""

    label: str
    value: float
    short: str = ""
    """What the plot calls it where the label covers a curve; the legend then has the label."""
    stated: bool = False
    """Whether the label says the value."""


@dataclass(frozen=True, slots=True)
class Band:
    label: str
    first: int
    last: int
    style: int | None = None
    """The side that it belongs to; None for a band of all curves."""


@dataclass(frozen=True, slots=True)
class Zone:
    """A range of values; None is an open end."""

    label: str
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Spread:
    """The range from the lowest to the highest of several curves."""

    label: str
    x: Sequence[int]
    low: Sequence[float]
    high: Sequence[float]
    style: int = 0
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Dot:
    """One run or host in a plot of many."""

    x: int
    y: float
    name: str
    tone: Tone = Tone.PLAIN
    hollow: bool = False
    kind: str = ""
    """What its color and shape mean, for the legend."""
    named: bool = False
    """Whether its name is written next to it."""
    short: str = ""
    """Its name there, without what all names share."""


@dataclass(frozen=True, slots=True)
class Chart:
    """A plot, with its summary in words and its values at a few places."""

    title: str
    unit: str
    summary: str
    samples: Table
    lines: Sequence[Line] = ()
    levels: Sequence[Level] = ()
    bands: Sequence[Band] = ()
    spreads: Sequence[Spread] = ()
    zones: Sequence[Zone] = ()
    dots: Sequence[Dot] = ()
    x_name: str = "step"
    """Plots with the same one share cursor and zoom."""
    x_names: Sequence[str] = ()
    """What the places 1, 2, ... of the x axis are called, where they are not numbers."""
    settled: int | None = None
    """Where the warm-up ends on a time axis: values before it do not stretch the axis."""
    minor: bool = False
    """Printed with the appendix only."""
    notes: Sequence[str] = ()
    """What the curves do not show, such as that one covers another; part of the legend."""


@dataclass(frozen=True, slots=True)
class Plots:
    title: str
    charts: Sequence[Chart]


@dataclass(frozen=True, slots=True)
class Mark:
    label: str
    value: float


@dataclass(frozen=True, slots=True)
class Track:
    """One row of an interval plot: a ratio with its interval, or the runs of a side."""

    label: str
    figure: str
    """In digits: the ratio with its interval, or the number of runs."""
    words: str
    """The conclusion, or the range of the runs."""
    tone: Tone = Tone.PLAIN
    value: float | None = None
    low: float | None = None
    high: float | None = None
    between_runs: bool = False
    """Whether the interval is between runs; one within runs is drawn as a broken line."""
    marks: Sequence[Mark] = ()
    style: int = 0


@dataclass(frozen=True, slots=True)
class IntervalPlot:
    """Ratios on one axis, with 1 and the smallest difference that matters."""

    title: str
    summary: str
    tracks: Sequence[Track]
    margin: float
    samples: Table


@dataclass(frozen=True, slots=True)
class Stage:
    """One row of a waterfall: a factor, as a bar from the product before it to the product with it."""

    label: str
    figure: str
    """In digits: the change with its interval."""
    words: str
    """What it means, or its share of the whole."""
    start: float
    end: float
    low: float | None = None
    """The interval of this factor alone, around the end of the bar."""
    high: float | None = None
    tone: Tone = Tone.PLAIN
    is_total: bool = False
    """Whether it is the whole and not one of its factors."""


@dataclass(frozen=True, slots=True)
class WaterfallPlot:
    """Factors that multiply to a whole, one below the other, on one axis."""

    title: str
    summary: str
    stages: Sequence[Stage]
    samples: Table
    unit: str = ""
    """What the axis shows."""


@dataclass(frozen=True, slots=True)
class Panel:
    title: str
    plots: Sequence[IntervalPlot | WaterfallPlot]
    note: str = ""
    folded: bool = False


@dataclass(frozen=True, slots=True)
class Point:
    text: str
    beneath: Sequence[str] = ()
    """Details, which a reader opens on demand."""
    printed: Sequence[str] = ()
    """What paper has in place of the text."""
    commands: Sequence[str] = ()
    """To be run for it."""


@dataclass(frozen=True, slots=True)
class Points:
    title: str
    points: Sequence[Point]
    note: str = ""
    folded: bool = False


Block = Table | Panel | Points | Group | Plots | Tiles


@dataclass(frozen=True, slots=True)
class Answer:
    """What one question came to: a word and a sentence."""

    word: str
    tone: Tone
    text: str


@dataclass(frozen=True, slots=True)
class Page:
    kind: str
    """What it reports on: run, fleet, comparison, trend or preflight."""
    title: str
    verdict: str
    """The answer in one word."""
    tone: Tone
    sentence: str
    """The answer to one question."""
    blocks: Sequence[Block]
    """In the order in which they are read."""
    commands: Sequence[str]
    """What reproduces it."""
    subject: str = ""
    """What was trained on what, in one line."""
    answers: Sequence[Answer] = ()
    """In place of the sentence, if there are several questions."""
    problem: Points | None = None
    """What the answer and its causes are about, in numbers."""
    evidence: Sequence[str] = ()
    """What the answer is based on."""
    reasons: Sequence[str] = ()
    causes: Points | None = None
    """Why a comparison was refused, or what explains its result."""
    summary: Table | None = None
    """The sides next to each other."""
    banner: str = ""
    """What the user declared, above everything else."""
    made_by: str = f"steelyard {__version__}"
    commands_note: str = "As typed, in the directory in which it was typed."
    images: Sequence[str] = ()
    """The file of each of `drawings`, relative to the page; empty if they are not written as files."""

    @property
    def drawings(self) -> list[Chart | IntervalPlot | WaterfallPlot]:
        """All plots, in the order in which they are read."""
        plots = [_drawings(block) for block in self.blocks]
        return [drawing for drawings in plots for drawing in drawings]

    @property
    def not_printed(self) -> list[str]:
        """Titles of what paper leaves out: folded parts, minor plots, and the values of plots."""
        left_out = []
        for block in self.blocks:
            match block:
                case Plots(charts=charts):
                    left_out += [f"plot of the {_lowered(chart.title)}" for chart in charts if chart.minor]
                case Group(title=title, tables=tables):
                    folded = [table.title for table in tables if table.folded]
                    left_out += [f"{_lowered(title)}: {', '.join(folded)}"] * bool(folded)
                case Table(folded=True) | Panel(folded=True) | Points(folded=True):
                    left_out.append(block.title)
                case _:
                    pass
        plots = [block for block in self.blocks if isinstance(block, Plots | Panel)]
        return left_out + ["values of the plots"] * bool(plots)


def _drawings(block: Block) -> Sequence[Chart | IntervalPlot | WaterfallPlot]:
    match block:
        case Plots(charts=charts):
            return charts
        case Panel(plots=plots):
            return plots
    return ()


def _lowered(title: str) -> str:
    return title if title.isupper() else f"{title[0].lower()}{title[1:]}"
