"""What a report shows, free of any format: every format renders the same page."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from steelyard import __version__

CODE = re.compile(r"(?<!`)`([\w.:= -]{1,80})`(?!`)")
"""A key or a command in a sentence; so little may stand between the marks that no text of a log can hide there."""


class Tone(StrEnum):
    """How a word is meant; a format shows it by more than colour."""

    GOOD = "good"
    BAD = "bad"
    UNSURE = "unsure"
    NOTE = "note"
    PLAIN = "plain"


@dataclass(frozen=True, slots=True)
class Cell:
    text: str
    tone: Tone = Tone.PLAIN
    href: str | None = None
    """A page beside this one, as a URL from here."""


@dataclass(frozen=True, slots=True)
class Tile:
    name: str
    value: str
    unit: str
    note: str
    """What makes the value believable: its interval, its bound, or why it is not known."""
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True)
class Table:
    """A titled table; `folded` where a reader opens it on demand."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str | Cell]]
    note: str = ""
    folded: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """A curve, thinned so that no spike is lost; None breaks it."""

    label: str
    x: Sequence[int]
    y: Sequence[float | None]
    broken: Sequence[tuple[int, int]] = ()
    """Stretches, first and last step, in which the value was NaN or infinite."""
    style: int = 0
    """Curves of one style belong together: the runs of one side."""


@dataclass(frozen=True, slots=True)
class Level:
    """A horizontal line to hold a curve against: a floor, a predicted first loss, a peak."""

    label: str
    value: float


@dataclass(frozen=True, slots=True)
class Band:
    label: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Spread:
    """How far the curves of one side reach, from the lowest to the highest."""

    label: str
    x: Sequence[int]
    low: Sequence[float]
    high: Sequence[float]
    style: int = 0


@dataclass(frozen=True, slots=True)
class Chart:
    """A plot, with its summary in words and its values at a few places."""

    title: str
    unit: str
    summary: str
    lines: Sequence[Line]
    samples: Table
    levels: Sequence[Level] = ()
    bands: Sequence[Band] = ()
    spreads: Sequence[Spread] = ()
    x_name: str = "step"


@dataclass(frozen=True, slots=True)
class Mark:
    label: str
    value: float


@dataclass(frozen=True, slots=True)
class Track:
    """One row of an interval plot: a ratio with its interval, or the runs of a side."""

    label: str
    figure: str
    """In digits: the ratio with its interval, or how many runs."""
    words: str
    """What may be said of it, or how far it reaches."""
    tone: Tone = Tone.PLAIN
    value: float | None = None
    low: float | None = None
    high: float | None = None
    between_runs: bool = False
    """Whether the interval is between runs; one inside them is drawn broken."""
    marks: Sequence[Mark] = ()
    style: int = 0


@dataclass(frozen=True, slots=True)
class IntervalPlot:
    """Ratios on one axis, against 1 and the margin around it."""

    title: str
    summary: str
    tracks: Sequence[Track]
    margin: float
    samples: Table


@dataclass(frozen=True, slots=True)
class Panel:
    title: str
    plots: Sequence[IntervalPlot]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Point:
    text: str
    beneath: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Points:
    title: str
    points: Sequence[Point]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    about: str
    word: str
    tone: Tone
    sentence: str


Block = Table | Panel | Points


@dataclass(frozen=True, slots=True)
class Page:
    kind: str
    """What it reports on: run, fleet, comparison, trend or preflight."""
    title: str
    verdict: str
    """The one word a reader came for."""
    tone: Tone
    sentence: str
    """The verdict in a sentence."""
    reasons: Sequence[str]
    tiles: Sequence[Tile]
    charts: Sequence[Chart]
    tables: Sequence[Block]
    commands: Sequence[str]
    """What reproduces it, to be typed in the directory it was typed in."""
    before: Sequence[Block] = ()
    """What belongs above the plots."""
    answers: Sequence[Answer] = ()
    """One by one, where several things were asked."""
    banner: str = ""
    """What a reader may not miss: it stands above everything."""
    made_by: str = f"steelyard {__version__}"
