"""Two suites cell by cell, with the mean ratio over the cells that both have."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from itertools import compress
from pathlib import Path
from typing import Any

from steelyard.comparison import NAME_OF, Comparison, Metric, Ratio
from steelyard.comparison.codes import sentence
from steelyard.comparison.contract import Comparability
from steelyard.comparison.intervals import BETWEEN_RUNS, LEVEL, Between, Outcome, error_at, outcome_of
from steelyard.comparison.ratios import TERMS
from steelyard.errors import Exit
from steelyard.reasons import Code, Reason

FEWEST = 2
"""Fewest cells for a mean."""
_ERROR = error_at(1)
"""Chance of any wrong result of one kind over all cells."""
_ABOVE = (Outcome.BETTER, Outcome.EQUIVALENT, Outcome.MARGINALLY_BETTER)
_BELOW = (Outcome.WORSE, Outcome.EQUIVALENT, Outcome.MARGINALLY_WORSE)
"""Outcomes of a ratio that is beyond the margin, inside it, or different from 1."""


class Absence(StrEnum):
    """Why one side of a cell has no figures."""

    OOM = "oom"
    SKIPPED = "skipped"
    """Not run: the plan needs more memory than the GPU has."""
    MISSING = "missing"
    """The suite does not have the cell, or no run of it."""


@dataclass(frozen=True, slots=True)
class SideOfCell:
    """One side of a cell that has no figures, and its memory where a plan is known."""

    absence: Absence
    planned_gib: float | None = None
    available_gib: float | None = None

    @property
    def words(self) -> str:
        match self.absence:
            case Absence.MISSING:
                return "not run"
            case Absence.SKIPPED:
                word = "predicted OOM"
            case Absence.OOM:
                word = "OOM"
        if self.planned_gib is None:
            return word
        limit = "" if self.available_gib is None else f" of {self.available_gib:,.1f}"
        return f"{word} (plan: {self.planned_gib:,.1f}{limit} GiB)"


@dataclass(frozen=True, slots=True)
class CellPair:
    """One cell on both sides."""

    values: Mapping[str, Any]
    """By axis."""
    label: str
    """`llama3.1-8b, micro batch 4`."""
    target: SideOfCell | None
    """None if the side has figures."""
    baseline: SideOfCell | None
    comparison: Comparison | None
    """None if a side has no figures."""

    def ratio(self, metric: Metric) -> Ratio | None:
        """None if the metric is not comparable, or a side has no figures."""
        return self.comparison.ratios[metric] if self.comparison and metric in NAME_OF else None

    def between(self, metric: Metric) -> Between | None:
        """None if there are too few runs, or step times have not settled."""
        ratio = self.ratio(metric)
        return None if ratio is None or ratio.outcome == Outcome.UNSETTLED else ratio.estimate


@dataclass(frozen=True, slots=True)
class Mean:
    """The geometric mean of one ratio over the cells that both sides have."""

    value: float
    low: float | None
    high: float | None
    level: float
    words: str
    method: str | None
    outcome: Outcome
    cells: int


@dataclass(frozen=True, slots=True)
class SuiteComparison:
    target: str
    """What the sides are called."""
    baseline: str
    axes: tuple[str, ...]
    pairs: tuple[CellPair, ...]
    asked: tuple[Metric, ...]
    margin: float
    means: Mapping[Metric, Mean | None]
    """None if no cell has the ratio."""
    adjusted: Mapping[Metric, tuple[str | None, ...]]
    """The conclusion of each cell, adjusted for the number of cells; None without an interval between runs."""
    left_out: Mapping[Metric, tuple[Reason, ...]]
    """The cells that are not part of the mean, and why."""
    directory: Path | None = None
