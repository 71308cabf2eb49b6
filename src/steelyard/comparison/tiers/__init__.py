"""The questions about two sides' losses, one file each, in the order they are asked; the first that fails is named."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import cycle, islice
from typing import Any

from steelyard.comparison.contract import Agreement, Clause, known_value
from steelyard.comparison.curve import Axis, LossCurve, loss_curves
from steelyard.comparison.intervals import FEWEST, Between, between, geometric_mean, paired
from steelyard.comparison.side import Side
from steelyard.frameworks.registry import facts
from steelyard.reasons import Reason

TIERS = ("first_loss", "first_steps", "level", "learning_speed", "reference", "stability")
"""After the contract, which decides whether the others mean anything; `reference` only where a loss is asked for."""
CUTS = ("parallelism.tensor_parallel_size", "parallelism.pipeline_parallel_size")
"""Each rank draws its own part of the weights, so that one seed cut in another way gives other weights."""
ROUNDOFF = {"fp8": 0.01, "bf16": 2.0**-8, "fp16": 2.0**-11, "fp32": 2.0**-24}
"""How far a number may be from the next that the format has, as a share of it; a loss of fp8 is a mean of many such."""


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

    @property
    def message(self) -> str:
        return self.reason.message

    def document(self) -> dict[str, Any]:
        figures = {name: getattr(self, name) for name in ("observed", "margin", "low", "high")}
        reason = {"code": self.reason.code.name, "message": self.message}
        return {"tier": self.tier, "status": self.status.value, **reason, **figures}


@dataclass(frozen=True)
class Pair:
    """Two sides, their contract, and their curves on one axis."""

    target: Side
    baseline: Side
    clauses: Sequence[Clause]
    target_loss: float | None = None
    """A loss that was asked for, which both sides are to reach."""

    @property
    def sides(self) -> tuple[Side, Side]:
        return self.target, self.baseline

    @cached_property
    def curves(self) -> list[list[LossCurve]]:
        return loss_curves([side.subjects for side in self.sides])

    @cached_property
    def end(self) -> float:
        """How far all runs went."""
        return min((float(curve.seen[-1]) for side in self.curves for curve in side if len(curve)), default=0.0)

    @cached_property
    def begin(self) -> float:
        """From where on all of them have a record."""
        return max((curve.begin for side in self.curves for curve in side if len(curve)), default=0.0)

    @property
    def axis(self) -> Axis:
        return self.curves[0][0].axis

    @property
    def warm_up(self) -> float | None:
        """The share of the way that the learning rate rises; None where it is not known, or differs between runs."""
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
        """Whether the sides agree in a parameter; None where that is not known."""
        status = self.clause(dotted).status
        return None if status == Agreement.UNKNOWN else status == Agreement.EQUAL

    @cached_property
    def matched(self) -> list[tuple[LossCurve, LossCurve]]:
        """Runs that should start from the same weights: of one seed and framework, and not cut in different ways."""
        target, baseline = self.curves
        return [(target[at], baseline[there]) for at, there, alike in self._of_one_seed if alike is not False]

    @property
    def otherwise_cut(self) -> bool:
        """Whether runs of one seed and framework start apart, being cut in other ways."""
        return any(alike is False for *_, alike in self._of_one_seed)

    @property
    def maybe_otherwise_cut(self) -> bool:
        """Whether that is not known of some. Curves of no known framework are taken for what they are said to be."""
        return self.same("platform.framework") is True and any(alike is None for *_, alike in self._of_one_seed)

    @cached_property
    def _of_one_seed(self) -> list[tuple[int, int, bool | None]]:
        """Runs of one framework and seed, by their places in the two sides, and whether they are cut alike."""
        if self.same("platform.framework") is False:
            return []
        target, baseline = map(by_seed, self.sides)
        places: list[tuple[int, int]] = []
        for seed in (seed for seed in target if seed in baseline):
            if isinstance(seed, Unknown) and (len(target), len(baseline)) != (1, 1):
                continue  # only a single run a side may be held against the other
            count = max(len(target[seed]), len(baseline[seed]))
            places += zip(*(islice(cycle(side[seed]), count) for side in (target, baseline)), strict=True)
        return [(at, there, self._cut_alike(at, there)) for at, there in places]

    def _cut_alike(self, at: int, there: int) -> bool | None:
        """Of a run of the target and one of the baseline; None where it is not known."""
        subjects = self.target.subjects[at], self.baseline.subjects[there]
        if all(facts(subject.run.manifest.framework).layout_free_weights for subject in subjects):
            return True
        cuts = [[known_value(subject, key)[1] for subject in subjects] for key in CUTS]
        if any(None not in cut and cut[0] != cut[1] for cut in cuts):
            return False
        return None if any(None in cut for cut in cuts) else True

    @cached_property
    def seeds(self) -> tuple[int, int]:
        """How many different seeds are known of each side."""
        target, baseline = (sum(not isinstance(seed, Unknown) for seed in by_seed(side)) for side in self.sides)
        return target, baseline

    def over_seeds(self, figures: Sequence[Sequence[float]]) -> "OverSeeds | None":
        """Target over baseline by whole seeds; None where a side has too few.

        Runs that repeat a seed are one, by their geometric mean. Where one framework trained the same seeds on both
        sides, each is held against itself: what a seed does to a curve it does to both.
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
        """What a difference of number formats may do to a single loss, though to no mean over many; 0 where none is."""
        formats = {subject.precision for side in self.sides for subject in side.subjects}
        return max(ROUNDOFF.get(precision or "", 0.0) for precision in formats) if len(formats) > 1 else 0.0


class Basis(StrEnum):
    SAME = "over the same {0} seeds"
    SEEDS = "between {0} and {1} seeds"
    UNKNOWN = "between {0} and {1} runs whose seeds are not known"


@dataclass(frozen=True, slots=True)
class OverSeeds:
    ratio: Between
    counts: tuple[int, int]
    basis: Basis

    @property
    def decides(self) -> bool:
        """Not where the seeds are not known, and may be one."""
        return self.basis != Basis.UNKNOWN

    @property
    def words(self) -> str:
        return self.basis.format(*self.counts)


@dataclass(frozen=True, slots=True)
class Unknown:
    """The seed of a run that does not tell it; by its place in the side."""

    at: int


def by_seed(side: Side) -> dict[Any, list[int]]:
    """Which runs of a side are of one seed; a run of unknown seed stands for itself."""
    places: dict[Any, list[int]] = {}
    for at, subject in enumerate(side.subjects):
        seed = subject.value("training.seed")
        places.setdefault(Unknown(at) if seed is None else seed, []).append(at)
    return places


def uneven_by_chance(happened: Sequence[int], of: Sequence[int]) -> float:
    """Fisher's exact test, two-sided (Statistical Methods for Research Workers, 1934, 21.02), of two sides' seeds."""
    total = sum(happened)
    ways = [math.comb(of[0], count) * math.comb(of[1], total - count) for count in range(total + 1)]
    return sum(way for way in ways if way <= ways[happened[0]]) / sum(ways)
