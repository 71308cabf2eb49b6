"""The content of a waterfall, independent of its format."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from steelyard.reporting.page import Table, Tone


@dataclass(frozen=True, slots=True)
class Stage:
    """One row: a factor, as a bar from the product before it to the product with it."""

    label: str
    figure: str
    """In digits: the change with its interval."""
    words: str
    """What it means, or its share of the whole."""
    start: float
    end: float
    tone: "Tone"
    low: float | None = None
    """The interval of this factor alone, around the end of the bar."""
    high: float | None = None
    is_total: bool = False
    """Whether it is the whole and not one of its factors."""


@dataclass(frozen=True, slots=True)
class WaterfallPlot:
    """Factors that multiply to a whole, one below the other, on one axis."""

    title: str
    summary: str
    stages: Sequence[Stage]
    samples: "Table"
    unit: str = ""
    """What the axis shows."""
