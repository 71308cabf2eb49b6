"""What a comparison of two suites is: one comparison per cell, and the mean ratio over the cells that both have."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from steelyard.comparison import NAME_OF, Comparability, Comparison, Metric, Ratio
from steelyard.comparison.declared import NOTHING, Declared
from steelyard.comparison.intervals import Between, Outcome
from steelyard.errors import Exit
from steelyard.experiment.experiment import Mode
from steelyard.reasons import Reason
from steelyard.records.suite import Suite


class Absence(StrEnum):
    """Why one side of a cell has no figures."""

    OOM = "oom"
    SKIPPED = "skipped"
    """Not run: the plan needs more memory than the GPU has."""
    MISSING = "missing"
    """The suite does not have the cell, or no run of it."""

    @property
    def words(self) -> str:
        return {Absence.OOM: "OOM", Absence.SKIPPED: "predicted OOM"}.get(self, "not run")


@dataclass(frozen=True, slots=True)
class SideOfCell:
    """One side of a cell that has no figures, and its memory where a plan is known."""

    absence: Absence
    planned_gib: float | None = None
    available_gib: float | None = None

    @property
    def words(self) -> str:
        """`OOM (plan 91.2 GiB, available 79.2 GiB)`."""
        memory = self.memory_words
        return f"{self.absence.words} ({memory})" if memory else self.absence.words

    @property
    def memory_words(self) -> str:
        """What the plan needs and the GPU has; empty if the cell was not run."""
        if self.planned_gib is None or self.absence == Absence.MISSING:
            return ""
        limit = "" if self.available_gib is None else f", available {self.available_gib:,.1f} GiB"
        return f"plan {self.planned_gib:,.1f} GiB{limit}"


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
class Options:
    """How every cell is compared."""

    asked: tuple[Metric, ...]
    mode: Mode | None = None
    warmup_steps: int = 0
    margin: float | None = None
    declared: Declared = NOTHING


@dataclass(frozen=True, slots=True)
class SuiteComparison:
    target: str
    """What the sides are called."""
    baseline: str
    suites: tuple[Suite, Suite]
    options: Options
    axes: tuple[str, ...]
    """In which the cells differ, without those of the platform."""
    pairs: tuple[CellPair, ...]
    margin: float
    means: Mapping[Metric, Mean | None]
    """None if no cell has the ratio."""
    adjusted: Mapping[Metric, tuple[str | None, ...]]
    """The conclusion of each cell, adjusted for the number of cells; None without an interval between runs."""
    left_out: Mapping[Metric, tuple[Reason, ...]]
    """The cells that are not part of the mean, and why."""
    directory: Path | None = None

    @property
    def asked(self) -> tuple[Metric, ...]:
        return self.options.asked

    @property
    def banner(self) -> str | None:
        """What the user declared, for the first lines of every output; None if nothing was used."""
        banners = dict.fromkeys(pair.comparison.banner for pair in self.pairs if pair.comparison)
        return "; ".join(filter(None, banners)) or None

    @property
    def exit(self) -> Exit:
        """The worst answer of the asked metrics, over the cells that both sides have."""
        ends = {end for metric in self.asked for end in self._exits_of(metric)}
        order = (Exit.NOT_COMPARABLE, Exit.FAILED, Exit.UNKNOWN)
        return next((end for end in order if end in ends), Exit.GOOD)

    def _exits_of(self, metric: Metric) -> Iterator[Exit]:
        compared = [pair.comparison for pair in self.pairs if pair.comparison]
        if not compared:
            yield Exit.NOT_COMPARABLE
        if metric == Metric.CONVERGENCE:
            yield from (comparison.exit_of(metric) for comparison in compared)
            return
        for comparison in compared:
            if comparison.comparable[metric].status == Comparability.NOT_COMPARABLE:
                yield Exit.NOT_COMPARABLE
            elif comparison.ratios[metric] is None:
                yield Exit.UNKNOWN
        mean = self.means[metric]
        yield Exit.GOOD if mean is not None and mean.outcome.decided else Exit.UNKNOWN

    def document(self) -> dict[str, Any]:
        """What `compare --json` prints of two suites."""
        sides = {"target": self.suites[0], "baseline": self.suites[1]}
        return {
            "suite_comparison": str(self.directory.resolve()) if self.directory else None,
            **{
                name: {"suite": str(suite.directory.resolve()), "platform": suite.platform}
                for name, suite in sides.items()
            },
            "axes": list(self.axes),
            "asked": [metric.value for metric in self.asked],
            "margin": self.margin,
            "banner": self.banner,
            "accepted": [each.document() for each in self.options.declared.accepted],
            "assumed": [each.document() for each in self.options.declared.assumed],
            "means": {name: asdict(each) if (each := self.means[metric]) else None for metric, name in NAME_OF.items()},
            "left_out": {
                metric.value: [{"code": each.code.name, "message": each.message} for each in reasons]
                for metric, reasons in self.left_out.items()
            },
            "cells": [self._cell_document(at) for at in range(len(self.pairs))],
        }

    def _cell_document(self, at: int) -> dict[str, Any]:
        pair = self.pairs[at]
        made = pair.comparison
        absent = {
            name: asdict(side) if side else None
            for name, side in (("target", pair.target), ("baseline", pair.baseline))
        }
        if made is None:
            return {"values": dict(pair.values), "absent": absent, "comparable": None}
        return {
            "values": dict(pair.values),
            "absent": absent,
            **{side.name: [str(subject.run.directory.resolve()) for subject in side.subjects] for side in made.sides},
            "comparable": {metric.value: ruling.document() for metric, ruling in made.comparable.items()},
            **{name: each.document() if (each := made.ratios[metric]) else None for metric, name in NAME_OF.items()},
            "adjusted_words": {metric.value: self.adjusted[metric][at] for metric in NAME_OF},
            "convergence": {"status": made.convergence.status},
            "banner": made.banner,
        }
