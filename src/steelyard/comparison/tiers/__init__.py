"""The tiers of convergence, one file each, in the order in which they are asked; the first that fails decides."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

from steelyard.comparison.contract import Agreement, Clause
from steelyard.comparison.curve import Axis, LossCurve, loss_curves
from steelyard.comparison.intervals import FEWEST, Between, between, geometric_mean, paired
from steelyard.comparison.phrases import each
from steelyard.comparison.side import Side
from steelyard.comparison.starts import DATA_UNKNOWN, Start, Unknown, by_seed, starts
from steelyard.reasons import Reason, SideName

TIERS = ("first_loss", "first_steps", "level", "learning_speed", "reference", "stability")
"""The tiers after the contract; `reference` applies only with `--target-loss`."""
ROUNDOFF = {"fp8": 0.01, "bf16": 2.0**-8, "fp16": 2.0**-11, "fp32": 2.0**-24}
"""Relative rounding error of each number format; the loss of an fp8 run is a mean of many values."""


class Answer(StrEnum):
    PASS = "pass"
    FAIL = "fail"
    UNKNOWN = "unknown"
    NOT_APPLICABLE = "not_applicable"


@dataclass(frozen=True, slots=True)
class Tier:
    tier: str
    status: Answer
    reason: Reason
    observed: float | None = None
    margin: float | None = None
    low: float | None = None
    high: float | None = None
    by_chance: float | None = None
    """Share of the ratio that seeds explain by chance, where too few seeds decide; only a larger difference fails."""

    @property
    def message(self) -> str:
        return self.reason.message

    def document(self) -> dict[str, Any]:
        figures = {name: getattr(self, name) for name in ("observed", "margin", "low", "high", "by_chance")}
        reason = {"code": self.reason.code.name, "message": self.message}
        return {"tier": self.tier, "status": self.status.value, **reason, **figures}


@dataclass(frozen=True)
class Pair:
    """Two sides, their contract, and their curves on one axis."""

    target: Side
    baseline: Side
    clauses: Sequence[Clause]
    target_loss: float | None = None
    """The loss of `--target-loss`."""

    @property
    def sides(self) -> tuple[Side, Side]:
        return self.target, self.baseline

    @property
    def called(self) -> tuple[str, str]:
        """The names of both sides in sentences."""
        return self.target.called, self.baseline.called

    def name_of(self, side: SideName) -> str:
        """The name of a side in sentences."""
        return self.called[side == "baseline"]

    @cached_property
    def curves(self) -> list[list[LossCurve]]:
        return loss_curves([side.subjects for side in self.sides])

    @cached_property
    def end(self) -> float:
        """The end of the shortest run."""
        return min((float(curve.seen[-1]) for side in self.curves for curve in side if len(curve)), default=0.0)

    @cached_property
    def begin(self) -> float:
        """From where on every run has records."""
        return max((curve.begin for side in self.curves for curve in side if len(curve)), default=0.0)

    @property
    def axis(self) -> Axis:
        return self.curves[0][0].axis

    @property
    def warm_up(self) -> float | None:
        """The share of the steps with a rising learning rate; None if unknown or different between runs."""
        schedules = {
            (subject.whole("training.warmup_steps"), subject.whole("training.steps"))
            for side in self.sides
            for subject in side.subjects
        }
        warm, steps = schedules.pop()
        return None if schedules or warm is None or not steps else min(warm / steps, 1.0)

    def clause(self, dotted: str) -> Clause:
        return next(clause for clause in self.clauses if clause.dotted == dotted)

    def same(self, dotted: str) -> bool | None:
        """Whether the sides agree in a setting; None if unknown."""
        status = self.clause(dotted).status
        return None if status == Agreement.UNKNOWN else status == Agreement.EQUAL

    @cached_property
    def _starts(self) -> tuple[list[Start], Reason | None]:
        return starts(*self.sides)

    @cached_property
    def matched(self) -> list[tuple[LossCurve, LossCurve]]:
        """Runs that may start from the same weights; `unmatched` is the reason if no such runs exist."""
        target, baseline = self.curves
        return [(target[start.target], baseline[start.baseline]) for start in self._starts[0]]

    @property
    def unmatched(self) -> Reason | None:
        return self._starts[1]

    @cached_property
    def doubt(self) -> Reason | None:
        """Why matched runs may start from other weights or data; None if they start alike."""
        doubts = [start.doubt for start in self._starts[0] if start.doubt is not None]
        order = self.clause("data.seed")
        if not doubts and not (self.same("data.source") and (self.same("data.seed") or not order.governs)):
            doubts.append(Reason(DATA_UNKNOWN, keys=("data.source", "data.seed")))
        return doubts[0] if doubts else None

    @property
    def one_stack(self) -> bool:
        """Whether matched runs used one kind of GPU and one software stack."""
        return all(start.one_stack for start in self._starts[0])

    @property
    def deterministic(self) -> bool:
        """Whether matched runs are known to use only deterministic kernels."""
        return all(start.deterministic for start in self._starts[0])

    @property
    def must_agree(self) -> bool:
        """Whether every difference of matched runs has a cause: the same weights and data, deterministic kernels."""
        return bool(self.matched) and self.doubt is None and self.deterministic

    @cached_property
    def repeated(self) -> list[list[LossCurve]] | None:
        """The curves of both sides, if all of them repeat one seed or start from the same declared weights."""
        every = len(self.target.subjects) * len(self.baseline.subjects)
        return self.curves if len({(start.target, start.baseline) for start in self._starts[0]}) == every else None

    @cached_property
    def seeds(self) -> tuple[int, int]:
        """Number of different known seeds per side."""
        target, baseline = (sum(not isinstance(seed, Unknown) for seed in by_seed(side)) for side in self.sides)
        return target, baseline

    def over_seeds(self, figures: Sequence[Sequence[float]]) -> "OverSeeds | None":
        """Target over baseline by seeds; None if a side has too few.

        Runs that repeat a seed count once, by their geometric mean. If one framework trained the same seeds on both
        sides, they are analyzed in pairs: a seed affects both curves alike.
        """
        target, baseline = (
            {seed: geometric_mean([values[at] for at in rows]) for seed, rows in by_seed(side).items()}
            for side, values in zip(self.sides, figures, strict=True)
        )
        counts, known = (len(target), len(baseline)), min(self.seeds) >= FEWEST
        if target.keys() == baseline.keys() and self.same("platform.framework") is not False and known:
            return OverSeeds(paired([(target[seed], baseline[seed]) for seed in target]), counts, Basis.SAME)
        ratio = between(list(target.values()), list(baseline.values()))
        return OverSeeds(ratio, counts, Basis.SEEDS if known else Basis.UNKNOWN) if ratio else None

    def rounding(self) -> float:
        """Relative effect of different number formats on a single loss; 0 if the formats agree."""
        formats = {subject.precision for side in self.sides for subject in side.subjects}
        return max(ROUNDOFF.get(precision or "", 0.0) for precision in formats) if len(formats) > 1 else 0.0


class Basis(StrEnum):
    SAME = "same seeds on both sides"
    SEEDS = "seeds differ between sides"
    UNKNOWN = "seeds not recorded"


@dataclass(frozen=True, slots=True)
class OverSeeds:
    ratio: Between
    counts: tuple[int, int]
    basis: Basis

    @property
    def decides(self) -> bool:
        """Not if the seeds are unknown: they may be equal."""
        return self.basis != Basis.UNKNOWN

    @property
    def words(self) -> str:
        if self.basis == Basis.UNKNOWN:
            return f"{each(self.counts, 'run')}, {self.basis}"
        return f"{each(self.counts, 'seed')}{f', {self.basis}' * (self.basis == Basis.SAME)}"


def uneven_by_chance(happened: Sequence[int], of: Sequence[int]) -> float:
    """Two-sided p-value of Fisher's exact test (Statistical Methods for Research Workers, 1934, 21.02)."""
    total = sum(happened)
    ways = [math.comb(of[0], count) * math.comb(of[1], total - count) for count in range(total + 1)]
    return sum(way for way in ways if way <= ways[happened[0]]) / sum(ways)
