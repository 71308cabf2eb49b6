"""The level of the loss in the last third: the mean of ln(target / baseline) after equal tokens."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np

from steelyard.comparison.chance import LEVEL_SPREAD, by_seeds
from steelyard.comparison.curve import Axis, LossCurve, common_stretch, on_common_records
from steelyard.comparison.intervals import FEWEST, Between, between, geometric_mean
from steelyard.comparison.phrases import compared, plain_percent
from steelyard.comparison.tiers import Answer, OverSeeds, Pair, Tier
from steelyard.comparison.tiers.first_steps import one_start
from steelyard.reasons import Code, Reason
from steelyard.records.columns import Floats

NAME = "level"
SAME_FRAMEWORK, ACROSS = 0.005, 0.01
_FEWEST_POINTS = 10
OTHER_RECORDS = "; the sides recorded different steps"
_MOST = 100.0
"""Largest logarithm of a ratio, which keeps it finite."""


@dataclass(frozen=True, slots=True)
class ByChance:
    """What chance explains of a ratio, and whether the ratio may pass."""

    explains: float
    """Share of the ratio; 0 if seeds or repeats are part of its interval."""
    decides: bool


DECIDED = ByChance(0.0, decides=True)


class Equivalence(StrEnum):
    BEYOND = "more than {margin}"
    BEYOND_CHANCE = "more than {margin} and the {by_chance} that seeds explain"
    EQUIVALENT = "within {margin}"
    OBSERVED = "within {margin}, but an observation: at least {fewest} seeds per side needed"
    BY_CHANCE = "more than {margin}, but seeds explain up to {by_chance}: at least {fewest} per side needed"
    OPEN = "not shown to be within {margin}"


def conclusion(equivalence: Equivalence, margin: float, by_chance: float | None = None, **_: Any) -> str:
    chance = plain_percent(round(by_chance, 3)) if by_chance else ""
    return equivalence.format(margin=plain_percent(margin), fewest=FEWEST, by_chance=chance)


def basis(seeds: OverSeeds | None, common: bool) -> str:
    """The basis of an interval, as it follows the interval in parentheses."""
    return f"{seeds.words if seeds else 'from these runs only'}{'' if common else OTHER_RECORDS}"


def _sentence(
    called: tuple[str, str], end: float, axis: Axis, seeds: OverSeeds | None, common: bool, **judged: Any
) -> str:
    higher, interval = compared(judged["ratio"], judged["low"], judged["high"], "higher", "lower")
    level = f"the loss of {called[0]} is {higher} than that of {called[1]} in the last third of {end:,.0f} {axis}"
    return f"{level} ({interval}, {basis(seeds, common)}): {conclusion(**judged)}"


COMPARED = Code("level_compared", _sentence)
"""The ratio of the two sides' losses in the last third of the run."""
OBSERVED = Code("level_observed", _sentence)
"""The levels of these runs are equivalent, or differ by no more than seeds explain; more seeds per side decide."""
TOO_FEW = Code("level_too_few_losses", "fewer than {fewest} losses in the last third of {end:,.0f} {axis}")
"""There are too few losses in the last third of the run."""


def ask(pair: Pair) -> Tier:
    margin = SAME_FRAMEWORK if pair.same("platform.framework") else ACROSS
    tails, left_open = _tails(pair)
    if not tails:
        few = Reason(TOO_FEW, {"fewest": _FEWEST_POINTS, "end": pair.end, "axis": pair.axis})
        return Tier(NAME, Answer.UNKNOWN, few, margin=margin)
    means = [np.mean([np.log(tail) for tail in side], axis=0) for side in tails]
    ratio, seeds, by_chance = settled(
        pair,
        [[geometric_mean(tail) for tail in side] for side in tails],
        lambda: hac(means[0] - means[1]),
        LEVEL_SPREAD,
    )
    values = {"called": pair.called, "end": pair.end, "axis": pair.axis, "seeds": seeds, "common": not left_open}
    return judged(NAME, (COMPARED, OBSERVED), unsure_by(left_open, ratio), margin, values, by_chance)


def _tails(pair: Pair) -> tuple[list[list[Floats]], float]:
    """The losses of the last third at the same places, and the uncertainty if few records are of the same steps."""
    begin = pair.begin + 2 / 3 * (pair.end - pair.begin)
    tails = common_stretch(on_common_records(pair.curves), begin, pair.end)
    if len(tails[0][0]) >= _FEWEST_POINTS:
        return [[tail.loss for tail in side] for side in tails], 0.0
    tails = [[curve.between(begin, pair.end) for curve in side] for side in pair.curves]
    if min(len(tail) for side in tails for tail in side) < _FEWEST_POINTS:
        return [], 0.0
    places = np.unique(np.concatenate([tail.seen for side in tails for tail in side]))
    losses = [[np.interp(places, curve.seen, curve.loss) for curve in side] for side in pair.curves]
    steepest = max(abs(float(np.polyfit(places, np.log(loss), 1)[0])) for side in losses for loss in side)
    return losses, steepest * between_records(tails)


def between_records(curves: Sequence[Sequence[LossCurve]]) -> float:
    """Uncertainty of a place: half the distance between two records of each side."""
    return sum(max(float(np.diff(curve.seen).max()) for curve in side) for side in curves) / 2


def unsure_by(left_open: float, ratio: Between) -> Between:
    """Add a uniform uncertainty of `left_open` to either side, whose deviation is smaller by the root of 3."""
    return replace(ratio, standard_error=math.hypot(ratio.standard_error, left_open / math.sqrt(3)))


def hac(differences: Floats) -> Between:
    """The mean of correlated differences of logarithms; n^(1/3) lags (Newey and West, Econometrica 55, 1987)."""
    n = len(differences)
    x = differences - differences.mean()
    lags = max(1, round(n ** (1 / 3)))
    variance = float(x @ x) / n + 2 * sum(
        (1 - lag / (lags + 1)) * float(x[lag:] @ x[:-lag]) / n for lag in range(1, min(lags, n - 1) + 1)
    )
    mean = min(max(float(differences.mean()), -_MOST), _MOST)
    return Between(math.exp(mean), math.sqrt(max(variance, 0.0) / n), n / (2 * lags + 1))


def settled(
    pair: Pair, figures: Sequence[Sequence[float]], of_runs: Callable[[], Between], spread: float
) -> tuple[Between, OverSeeds | None, ByChance]:
    """The ratio of the two sides' figures, over seeds if enough, else of these runs; and what chance explains.

    Runs with one start need no seeds to pass; to fail, their kernels must be deterministic, or runs repeated.
    """
    seeds = pair.over_seeds(figures)
    if seeds is not None and seeds.decides:
        return seeds.ratio, seeds, DECIDED
    ratio, repeats = (seeds.ratio, None) if seeds else (of_runs(), None)
    alike = one_start(pair)
    if alike and pair.repeated is not None and (repeats := between(figures[0], figures[1])) is not None:
        ratio = max(ratio, repeats, key=Between.half_width)
    if alike and (repeats is not None or pair.must_agree):
        return ratio, seeds, DECIDED
    return ratio, seeds, ByChance(by_seeds(spread, pair.seeds), decides=alike)


def judged(
    name: str,
    codes: tuple[Code, Code],
    ratio: Between,
    margin: float,
    values: dict[str, Any],
    chance: ByChance = DECIDED,
) -> Tier:
    """Pass if equivalent by TOST and `chance` lets it decide; fail if beyond the margin and what chance explains.

    The codes are of a decided tier, and of an observation.
    """
    low, high = ratio.interval()
    beyond = [(low > 1 + bound or high < 1 - bound) for bound in (margin, margin + chance.explains)]
    if beyond[1]:
        status, equivalence = Answer.FAIL, Equivalence.BEYOND_CHANCE if chance.explains else Equivalence.BEYOND
    elif beyond[0]:
        status, equivalence = Answer.UNKNOWN, Equivalence.BY_CHANCE
    elif not ratio.equivalent(margin):
        status, equivalence = Answer.UNKNOWN, Equivalence.OPEN
    elif chance.decides:
        status, equivalence = Answer.PASS, Equivalence.EQUIVALENT
    else:
        status, equivalence = Answer.UNKNOWN, Equivalence.OBSERVED
    code = codes[equivalence in (Equivalence.OBSERVED, Equivalence.BY_CHANCE)]
    by_chance = chance.explains or None
    interval = {"ratio": ratio.value, "low": low, "high": high, "equivalence": equivalence, "margin": margin}
    reason = Reason(code, {**values, **interval, "by_chance": by_chance})
    return Tier(name, status, reason, ratio.value, margin, low, high, by_chance)
