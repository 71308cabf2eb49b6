"""What is asked about, and what an answer is."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import cycle, islice
from typing import Any

from steelyard.comparison.contract import Agreement, Clause, known_value
from steelyard.comparison.curve import Axis, LossCurve, common_begin, common_end, loss_curves
from steelyard.comparison.intervals import FEWEST, Between, between, geometric_mean, paired
from steelyard.comparison.side import Side
from steelyard.frameworks.registry import facts
from steelyard.reasons import Code, Reason, SideName
from steelyard.verdict import Subject

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
    """One question about two curves, and its answer."""

    tier: str
    status: Answer
    reason: Reason
    observed: float | None = None
    margin: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def code(self) -> Code:
        """What the answer rests on; the status says what that comes to."""
        return self.reason.code

    @property
    def message(self) -> str:
        return self.reason.message

    @property
    def side(self) -> SideName | None:
        """Of whom it is said, where it is not of both alike."""
        return self.reason.side

    @property
    def keys(self) -> tuple[str, ...]:
        """The parameters it is about."""
        return self.reason.keys

    def document(self) -> dict[str, Any]:
        """An entry of `tiers` in JSON."""
        return {
            "tier": self.tier,
            "status": self.status.value,
            "code": self.code.name,
            "message": self.message,
            "observed": self.observed,
            "margin": self.margin,
            "low": self.low,
            "high": self.high,
        }


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
        """Of the target's runs, and of the baseline's."""
        return loss_curves([self.target.subjects, self.baseline.subjects])

    @cached_property
    def end(self) -> float:
        """How far all runs went."""
        return common_end(self.curves)

    @cached_property
    def begin(self) -> float:
        """From where on all of them have a record."""
        return common_begin(self.curves)

    @property
    def axis(self) -> Axis:
        return self.curves[0][0].axis

    def after(self, share: float) -> float:
        """The place by which they went so much of their common way."""
        return self.begin + share * (self.end - self.begin)

    @property
    def warm_up(self) -> float | None:
        """The share of the way that the learning rate rises, where both sides say the same; None where it is not known.

        A run that goes on with an earlier one has it behind it.
        """
        found = {
            (subject.whole("training.warmup_steps"), subject.whole("training.steps"))
            for side in (self.target, self.baseline)
            for subject in side.subjects
        }
        warm, steps = found.pop()
        return None if found or warm is None or not steps else min(warm / steps, 1.0)

    def clause(self, dotted: str) -> Clause:
        return next(one for one in self.clauses if one.dotted == dotted)

    def same(self, dotted: str) -> bool | None:
        """Whether the sides agree in a parameter; None where that is not known."""
        clause = self.clause(dotted)
        return None if clause.status == Agreement.UNKNOWN else clause.status == Agreement.EQUAL

    @cached_property
    def told_rates(self) -> bool:
        """Whether every run recorded its learning rates."""
        every = (*self.target.subjects, *self.baseline.subjects)
        return all(subject.steps.learning_rate.finite.any() for subject in every)

    @cached_property
    def matched(self) -> list[tuple[LossCurve, LossCurve]]:
        """Runs that should start from the same weights: of one seed, each with one of the other side.

        Each framework makes its own weights of a seed, and others where it cuts them otherwise. Of seeds that are not
        known only one run a side may be held against the other.
        """
        ours, theirs = self.curves
        return [(ours[at], theirs[there]) for at, there in self._matched if self._cut_alike(at, there) is not False]

    @cached_property
    def otherwise_cut(self) -> bool:
        """Whether runs of one seed and framework start apart, being cut in other ways."""
        return any(self._cut_alike(*both) is False for both in self._matched)

    @cached_property
    def maybe_otherwise_cut(self) -> bool:
        """Whether that is not known of some. Curves of no known framework are taken for what they are said to be."""
        known = self.same("platform.framework") is True
        return known and any(self._cut_alike(*both) is None for both in self._matched)

    def _cut_alike(self, at: int, there: int) -> bool | None:
        """Of a run of the target and one of the baseline; None where it is not known."""
        ours, theirs = self.target.subjects[at], self.baseline.subjects[there]
        if all(facts(one.run.manifest.framework).layout_free_weights for one in (ours, theirs)):
            return True
        both = [(_known(ours, key), _known(theirs, key)) for key in CUTS]
        if any(None not in one and one[0] != one[1] for one in both):
            return False
        return None if any(None in one for one in both) else True

    @cached_property
    def _matched(self) -> list[tuple[int, int]]:
        """Runs of one framework and seed, by their places in the two sides."""
        if self.same("platform.framework") is False:
            return []
        ours, theirs = by_seed(self.target), by_seed(self.baseline)
        found: list[tuple[int, int]] = []
        for seed in (one for one in ours if one in theirs):
            one, other = ours[seed], theirs[seed]
            if isinstance(seed, Unknown) and (len(ours), len(theirs)) != (1, 1):
                continue
            count = max(len(one), len(other))
            found += zip(islice(cycle(one), count), islice(cycle(other), count), strict=True)
        return found

    @cached_property
    def seeds(self) -> tuple[int, int]:
        """How many different seeds are known of each side."""
        ours, theirs = (
            sum(not isinstance(seed, Unknown) for seed in by_seed(side)) for side in (self.target, self.baseline)
        )
        return ours, theirs

    def over_seeds(self, figures: Sequence[Sequence[float]]) -> "OverSeeds | None":
        """Target over baseline by whole seeds; None where a side has too few.

        Runs that repeat a seed are one, by their geometric mean. Where one framework trained the same seeds on both
        sides, each is held against itself: what a seed does to a curve it does to both.
        """
        ours, theirs = (
            {seed: geometric_mean([values[at] for at in rows]) for seed, rows in by_seed(side).items()}
            for side, values in zip((self.target, self.baseline), figures, strict=True)
        )
        if ours.keys() == theirs.keys() and self.same("platform.framework") is not False and min(self.seeds) >= FEWEST:
            return OverSeeds(
                paired([(ours[seed], theirs[seed]) for seed in ours]), (len(ours), len(theirs)), Basis.SAME
            )
        ratio = between(list(ours.values()), list(theirs.values()))
        basis = Basis.SEEDS if min(self.seeds) >= FEWEST else Basis.UNKNOWN
        return OverSeeds(ratio, (len(ours), len(theirs)), basis) if ratio else None

    def rounding(self) -> float:
        """What a difference of number formats may do to a single loss; 0 where there is none.

        A mean over many steps has no such excuse: the format's rounding is to both sides.
        """
        formats = {subject.precision for side in (self.target, self.baseline) for subject in side.subjects}
        return max(ROUNDOFF.get(one or "", 0.0) for one in formats) if len(formats) > 1 else 0.0


class Basis(StrEnum):
    """What the two sides' seeds are to each other."""

    SAME = "over the same {0} seeds"
    SEEDS = "between {0} and {1} seeds"
    UNKNOWN = "between {0} and {1} runs whose seeds are not known"


@dataclass(frozen=True, slots=True)
class OverSeeds:
    """A ratio by whole seeds, and of which."""

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


def uneven_by_chance(happened: Sequence[int], of: Sequence[int]) -> float:
    """How often chance alone deals what happened to so many of two sides' seeds at least so unevenly.

    Fisher's exact test, two-sided (Statistical Methods for Research Workers, 1934, 21.02).
    """
    total = sum(happened)
    ways = [math.comb(of[0], one) * math.comb(of[1], total - one) for one in range(total + 1)]
    return sum(way for way in ways if way <= ways[happened[0]]) / sum(ways)


def _known(subject: Subject, dotted: str) -> Any:
    """A parameter of a run; None where it is not known."""
    return known_value(subject, dotted)[1]


def by_seed(side: Side) -> dict[Any, list[int]]:
    """Which runs of a side are of one seed; a run of unknown seed stands for itself."""
    found: dict[Any, list[int]] = {}
    for at, subject in enumerate(side.subjects):
        seed = subject.value("training.seed")
        found.setdefault(Unknown(at) if seed is None else seed, []).append(at)
    return found
