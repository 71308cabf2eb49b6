"""A bar chart of a paper: values of several places, such as the cells of a suite."""

from collections.abc import Sequence
from dataclasses import dataclass

from steelyard.reporting.page import Level


@dataclass(frozen=True, slots=True)
class Bar:
    value: float | None
    word: str = ""
    """What stands for a missing value, such as OOM."""
    runs: Sequence[float] = ()
    """The values of the runs, if there are several."""


@dataclass(frozen=True, slots=True)
class BarGroup:
    """The bars of one side, one per place."""

    label: str
    bars: Sequence[Bar]
    style: int = 0


@dataclass(frozen=True, slots=True)
class Bars:
    """Values of several places, such as the cells of a suite, from 0."""

    title: str
    unit: str
    places: Sequence[str]
    groups: Sequence[BarGroup]
    levels: Sequence[Level] = ()
