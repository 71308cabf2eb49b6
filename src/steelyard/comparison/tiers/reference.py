"""Tokens to the loss of `--target-loss` over several seeds, each known between two records or not reached.

A log-normal accelerated-life model with one spread for both sides (Kalbfleisch and Prentice, The Statistical Analysis
of Failure Time Data, 2002, chapter 3), by maximum likelihood over the intervals.
"""

import math
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from steelyard.comparison.curve import Axis, LossCurve, evaluations, seen_after
from steelyard.comparison.intervals import FEWEST, Between, quantile
from steelyard.comparison.phrases import each, percent, plural
from steelyard.comparison.starts import by_seed
from steelyard.comparison.tiers import Answer, Pair, Tier, uneven_by_chance
from steelyard.comparison.tiers.learning_speed import calmed, more_tokens, smoothed
from steelyard.comparison.tiers.level import conclusion, judged
from steelyard.reasons import Code, Reason
from steelyard.records.columns import Floats
from steelyard.verdict import Subject

NAME = "reference"
MARGIN = 0.02
ONE_SIDED = 0.95
DIFFER = 0.05
"""If chance alone gives such an outcome less often, the sides differ."""
_LEAST_SPREAD, _MOST = 1e-4, 10.0
"""Bounds of a deviation of logarithms; seeds that reach the loss between the same two records still differ."""


@dataclass(frozen=True, slots=True)
class Within:
    """The tokens between which a run reached the loss; `by` is infinite if it did not."""

    after: float
    by: float


Counts = tuple[tuple[int, int], tuple[int, int]]
"""Per side: how many seeds reached the loss, and how many there are."""


def _reached(called: tuple[str, str], loss: float, seeds: Counts) -> str:
    counts = (
        f"{reached} of {plural(count, 'seed')} of {side}" for side, (reached, count) in zip(called, seeds, strict=True)
    )
    return f"loss {loss:g} is reached by {' and '.join(counts)}"


def _compared(called: tuple[str, str], loss: float, seeds: Counts, axis: Axis, at_most: float, **judged: Any) -> str:
    more, interval = more_tokens(called, axis, judged["ratio"], judged["low"], judged["high"])
    bound = f"one-sided {ONE_SIDED:.0%} bound {percent(at_most - 1, signed=True)}"
    return f"{more} ({interval}, {bound}): {conclusion(**judged)}; {_reached(called, loss, seeds)}"


COMPARED = Code("reference_compared", _compared)
"""The ratio of the tokens that the two sides take to the asked loss."""
BY_ONE_SIDE = Code(
    "reference_by_one_side",
    lambda chance, **seeds: f"{_reached(**seeds)}; chance alone gives this in {chance:.1%} of cases",
)
"""Only one side reaches the asked loss."""
NOT_REACHED = Code("reference_not_reached", _reached)
"""No run reaches the asked loss."""
ABOVE_FIRST = Code("reference_above_first", "every run starts below loss {loss:g}: choose a lower --target-loss")
"""Every run begins below the asked loss."""
FEW_SEEDS = Code(
    "reference_few_seeds",
    lambda seeds, fewest: f"{each(seeds, 'known seed')}: at least {fewest} per side needed for tokens to a loss",
)
"""There are too few known seeds per side."""


def ask(pair: Pair) -> Tier | None:
    if pair.target_loss is None:
        return None
    if min(pair.seeds) < FEWEST:
        few = Reason(FEW_SEEDS, {"seeds": pair.seeds, "fewest": FEWEST}, keys=("training.seed",))
        return Tier(NAME, Answer.UNKNOWN, few, margin=MARGIN)
    loss = pair.target_loss
    sides = [
        [_within(side.subjects[rows[0]], curves[rows[0]], loss) for rows in by_seed(side).values()]
        for side, curves in zip(pair.sides, pair.curves, strict=True)
    ]
    reached = [sum(math.isfinite(seed.by) for seed in side) for side in sides]
    values: dict[str, Any] = {
        "called": pair.called,
        "loss": loss,
        "seeds": tuple(zip(reached, map(len, sides), strict=True)),
    }
    if max(reached) == 0:
        return Tier(NAME, Answer.UNKNOWN, Reason(NOT_REACHED, values), margin=MARGIN)
    if all(seed.after == 0 and math.isfinite(seed.by) for side in sides for seed in side):
        return Tier(NAME, Answer.UNKNOWN, Reason(ABOVE_FIRST, {"loss": loss}), margin=MARGIN)
    if 0 in reached:  # up to the end of the shortest run that did not reach it
        end = min(seed.after for side in sides for seed in side if math.isinf(seed.by))
        chance = uneven_by_chance([sum(seed.by <= end for seed in side) for side in sides], list(map(len, sides)))
        status = Answer.FAIL if chance < DIFFER else Answer.UNKNOWN
        return Tier(NAME, status, Reason(BY_ONE_SIDE, {**values, "chance": chance}), chance, DIFFER)
    tokens = ratio(*sides)
    at_most = tokens.value * math.exp(quantile(tokens.freedom, ONE_SIDED) * tokens.standard_error)
    return judged(NAME, (COMPARED, COMPARED), tokens, MARGIN, {**values, "axis": pair.axis, "at_most": at_most})


def _within(subject: Subject, curve: LossCurve, loss: float) -> Within:
    """When a run reached the loss: by its evaluations if it has any, else by its smoothed training loss."""
    if not len(curve):
        return Within(0.0, math.inf)
    if evaluated := evaluations(subject):
        steps = np.array(sorted(evaluated))
        seen, losses = seen_after(subject, curve.axis, steps), np.array([evaluated[int(step)] for step in steps])
    else:
        seen, noisy = curve.thinned()
        losses = smoothed(calmed(noisy))
    below = np.flatnonzero(losses <= loss)
    if not len(below):
        return Within(float(seen[-1]), math.inf)
    return Within(float(seen[below[0] - 1]) if below[0] else 0.0, float(seen[below[0]]))


def ratio(target: list[Within], baseline: list[Within]) -> Between:
    """Target over baseline, with the spread of seeds; in the limit of exact tokens, Student's t of two means.

    The error comes from the curvature of the likelihood, corrected for the two means, and is at least the distance
    between records. Seeds that did not reach the loss carry little information about the spread, so the degrees of
    freedom count only the share that reached it, on the side where it is smaller.
    """
    from scipy.optimize import minimize

    ends = [np.log([[max(seed.after, 1.0), max(seed.by, 1.0)] for seed in side]) for side in (target, baseline)]
    middle = [np.where(np.isfinite(side[:, 1]), side.mean(axis=1), side[:, 0]) for side in ends]
    apart = np.concatenate([side - side.mean() for side in middle])
    start = np.array([middle[0].mean() - middle[1].mean(), middle[1].mean(), math.log(max(float(apart.std()), 0.01))])
    best = minimize(_unlikely, start, args=(ends,), method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-9}).x
    there = min(float(np.isfinite(side[:, 1]).mean()) for side in ends)
    freedom = max(there * len(apart) - 2, 1.0)
    widths = np.concatenate([side[:, 1] - side[:, 0] for side in ends])
    left_open = float(np.mean(widths[np.isfinite(widths)])) / math.sqrt(12)
    seeds = _error(best, ends) * math.sqrt((freedom + 2) / freedom) if math.exp(best[2]) > left_open / 2 else 0.0
    error = max(min(seeds, _MOST), left_open)
    return Between(math.exp(best[0]), error, freedom)


def _unlikely(at: Floats, ends: list[Floats]) -> float:
    """Negative log likelihood at the difference, the mean of the baseline, and the logarithm of the spread."""
    from scipy.special import log_ndtr

    total = 0.0
    for mean, side in zip((at[0] + at[1], at[1]), ends, strict=True):
        low, high = ((side - mean) / max(math.exp(at[2]), _LEAST_SPREAD)).T
        flip = low > 0  # far above the mean, the other tail is more accurate
        low, high = np.where(flip, -high, low), np.where(flip, -low, high)
        upper, lower = log_ndtr(high), log_ndtr(low)
        total -= float((upper + np.log1p(-np.exp(np.minimum(lower - upper, -1e-12)))).sum())
    return total


def _error(best: Floats, ends: list[Floats]) -> float:
    """Standard error of the difference, from the curvature at the maximum of the likelihood."""
    step, identity = 1e-3 * math.exp(best[2]) + 1e-6, np.eye(3)
    curvature = np.empty((3, 3))
    for row, column in product(range(3), repeat=2):
        corners = (
            up * across * _unlikely(best + step * (up * identity[row] + across * identity[column]), ends)
            for up, across in product((1, -1), repeat=2)
        )
        curvature[row, column] = sum(corners) / (4 * step**2)
    means = curvature[:2, :2]
    if curvature[2, 2] > 0:
        means = means - np.outer(curvature[:2, 2], curvature[2, :2]) / curvature[2, 2]
    if not (np.linalg.eigvalsh(means) > 0).all():
        return 0.0
    return math.sqrt(float(np.linalg.inv(means)[0, 0]))
