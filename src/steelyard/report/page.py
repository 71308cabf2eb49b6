"""What a report shows, free of any format: every format renders the same page."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum


class Tone(StrEnum):
    """How a word is meant; a format shows it by more than colour."""

    GOOD = "good"
    BAD = "bad"
    UNSURE = "unsure"
    NOTE = "note"
    PLAIN = "plain"


@dataclass(frozen=True, slots=True)
class Cell:
    """A word of a table that carries a judgement."""

    text: str
    tone: Tone = Tone.PLAIN
    href: str | None = None
    """A page beside this one, as a URL from here."""


@dataclass(frozen=True, slots=True)
class Tile:
    """One headline figure."""

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
    """A curve, thinned so that no spike is lost."""

    label: str
    x: Sequence[int]
    y: Sequence[float | None]
    """None breaks the curve."""
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
    """A shaded stretch of the x axis."""

    label: str
    first: int
    last: int


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
    x_name: str = "step"


@dataclass(frozen=True, slots=True)
class Page:
    """A whole report."""

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
    tables: Sequence[Table]
    commands: Sequence[str]
    """What reproduces it, to be typed in the directory it was typed in."""
    made_by: str
    before: Sequence[Table] = field(default=())
    """Tables that belong above the plots."""
