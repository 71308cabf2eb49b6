"""What is asked about, and what an answer is."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import cycle, islice
from typing import Any

from steelyard.compare.between_runs import FEWEST, Between, between, geometric_mean, paired
from steelyard.compare.contract import Agreement, Clause
from steelyard.compare.curve import LossCurve, common_begin, common_end, loss_curves
from steelyard.compare.side import Side

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
    message: str
    observed: float | None = None
    margin: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Pair:
    """Two sides, their contract, and their curves on one axis."""

    target: Side
    baseline: Side
    clauses: Sequence[Clause]
    target_loss: float | None = None
    """A loss that was asked for, which both sides are to reach."""

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
    def up_to(self) -> str:
        """How far that is, in words: what a tier says holds up to there."""
        return f"{self.end:,.0f} {self.curves[0][0].axis}"

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

    def same(self, dotted: str) -> bool | None:
        """Whether the sides agree in a parameter; None where that is not known."""
        clause = next(one for one in self.clauses if one.dotted == dotted)
        return None if clause.status == Agreement.UNKNOWN else clause.status == Agreement.EQUAL

    @cached_property
    def matched(self) -> list[tuple[LossCurve, LossCurve]]:
        """Runs that should start from the same weights: of one seed, each with one of the other side.

        Each framework makes its own weights of a seed. Of seeds that are not known only one run a side may be held
        against the other.
        """
        if self.same("platform.framework") is False:
            return []
        ours, theirs = (
            {seed: [curves[at] for at in rows] for seed, rows in by_seed(side).items()}
            for side, curves in zip((self.target, self.baseline), self.curves, strict=True)
        )
        found: list[tuple[LossCurve, LossCurve]] = []
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
            return OverSeeds(paired([(ours[seed], theirs[seed]) for seed in ours]), f"over the same {len(ours)} seeds")
        found = between(list(ours.values()), list(theirs.values()))
        counts = f"between {len(ours)} and {len(theirs)}"
        known = min(self.seeds) >= FEWEST
        basis = f"{counts} seeds" if known else f"{counts} runs whose seeds are not known"
        return OverSeeds(found, basis, known) if found else None

    def rounding(self) -> float:
        """What a difference of number formats may do to a single loss; 0 where there is none.

        A mean over many steps has no such excuse: the format's rounding is to both sides.
        """
        formats = {subject.precision for side in (self.target, self.baseline) for subject in side.subjects}
        return max(ROUNDOFF.get(one or "", 0.0) for one in formats) if len(formats) > 1 else 0.0


@dataclass(frozen=True, slots=True)
class OverSeeds:
    """A ratio by whole seeds, and of which."""

    ratio: Between
    basis: str
    decides: bool = True
    """Not where the seeds are not known, and may be one."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """The seed of a run that does not tell it; by its place in the side."""

    at: int


def by_seed(side: Side) -> dict[Any, list[int]]:
    """Which runs of a side are of one seed; a run of unknown seed stands for itself."""
    found: dict[Any, list[int]] = {}
    for at, subject in enumerate(side.subjects):
        seed = subject.value("training.seed")
        found.setdefault(Unknown(at) if seed is None else seed, []).append(at)
    return found
