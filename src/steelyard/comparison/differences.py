"""The settings of two sides next to each other, each with what the contract demands of it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from steelyard import reasons
from steelyard.comparison.contract import Agreement, Clause, contract, effect_in
from steelyard.comparison.side import Side
from steelyard.errors import Exit
from steelyard.experiment.experiment import Mode
from steelyard.experiment.policy import Effect, Metric
from steelyard.frameworks.registry import facts
from steelyard.verdict import Subject, policy_of


class Demand(StrEnum):
    """What the contract demands of a setting for the asked metrics."""

    MUST_MATCH = "must_match"
    CAVEAT = "caveat"
    FREE = "free"


@dataclass(frozen=True, slots=True)
class Row:
    clause: Clause
    demand: Demand
    names: tuple[str | None, str | None]
    """The name of the setting in the framework of each side; None where it has none."""

    @property
    def refuses(self) -> bool:
        """Whether the sides cannot be compared because of it."""
        return self.demand == Demand.MUST_MATCH and self.clause.status == Agreement.DIFFERENT

    def document(self) -> dict[str, Any]:
        target, baseline = self.names
        names = {"target_name": target, "baseline_name": baseline}
        return {**self.clause.document(), "class": self.demand.value, **names}


@dataclass(frozen=True, slots=True)
class Differences:
    sides: tuple[Side, Side]
    asked: tuple[Metric, ...]
    mode: Mode
    rows: tuple[Row, ...]
    """Those that refuse the comparison first, then different, unknown and equal ones, each by demand."""

    @property
    def exit(self) -> Exit:
        return Exit.NOT_COMPARABLE if any(row.refuses for row in self.rows) else Exit.GOOD

    def refused(self, metric: Metric) -> int:
        """How many settings differ that must match for another metric."""
        differ = (row for row in self.rows if row.clause.status == Agreement.DIFFERENT)
        return sum(row.clause.governs.get(metric) == Effect.BLOCKS for row in differ)

    def having(self, status: Agreement) -> list[Row]:
        return [row for row in self.rows if row.clause.status == status]

    def document(self) -> dict[str, Any]:
        return {
            **{side.name: side.called for side in self.sides},
            "asked": [metric.value for metric in self.asked],
            "mode": self.mode,
            "rows": [row.document() for row in self.rows],
        }


def differences(
    target: Sequence[Subject],
    baseline: Sequence[Subject],
    called: tuple[str, str],
    asked: Sequence[Metric],
    mode: Mode | None = None,
) -> Differences:
    """Compare the settings of two sides by the contract of a comparison, without their records and verdicts."""
    sides = Side("target", tuple(target), (), called[0]), Side("baseline", tuple(baseline), (), called[1])
    if mode is None:
        modes = {policy_of(subject.run).mode for side in sides for subject in side.subjects}
        mode = "matched" if "matched" in modes else "best"
    order = list(_ordered())
    rows = [_row(clause, sides, asked, mode) for clause in contract(*sides)]
    rows.sort(key=lambda row: order.index((row.clause.status, row.demand)))
    return Differences(sides, tuple(asked), mode, tuple(rows))


def _ordered() -> Iterator[tuple[Agreement, Demand]]:
    for status in (Agreement.DIFFERENT, Agreement.UNKNOWN, Agreement.EQUAL):
        yield from ((status, demand) for demand in Demand)


def _row(clause: Clause, sides: Sequence[Side], asked: Sequence[Metric], mode: Mode) -> Row:
    effects = {effect_in(mode, clause.governs[metric]) for metric in asked if metric in clause.governs}
    demand = Demand.MUST_MATCH if reasons.Effect.BLOCKS in effects else Demand.CAVEAT if effects else Demand.FREE
    target, baseline = (facts(side.subjects[0].run.manifest.framework).spelling(clause.dotted) for side in sides)
    return Row(clause, demand, (target, baseline))
