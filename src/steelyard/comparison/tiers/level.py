"""The level of the last third: the mean of ln(target / baseline) where both have seen as much."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from steelyard.comparison.between_runs import FEWEST, Between, geometric_mean
from steelyard.comparison.curve import LossCurve, common_stretch, on_common_records
from steelyard.comparison.tiers.first_steps import one_start
from steelyard.comparison.tiers.tier import Answer, Pair, Tier
from steelyard.records.columns import Floats

NAME = "level"
SAME_FRAMEWORK, ACROSS = 0.005, 0.01
_FEWEST_POINTS = 10
OTHER_RECORDS = ", between records that are of other steps on each side"
_MOST = 100.0
"""A ratio's logarithm is no larger, so that it stays a number."""


def ask(pair: Pair) -> Tier:
    margin = SAME_FRAMEWORK if pair.same("platform.framework") else ACROSS
    tails, left_open = _tails(pair)
    if not tails:
        few = f"fewer than {_FEWEST_POINTS} losses in the last third of {pair.up_to}"
        return Tier(NAME, Answer.UNKNOWN, few, margin=margin)
    seeds = pair.over_seeds([[geometric_mean(tail) for tail in side] for side in tails])
    if seeds is not None:
        found, basis, decides = seeds.ratio, seeds.basis, seeds.decides
    else:
        means = [np.mean([np.log(tail) for tail in side], axis=0) for side in tails]
        found, basis = hac(means[0] - means[1]), "within these runs, which says nothing of another seed"
        decides = one_start(pair)
    told = f"in the last third of {pair.up_to} the target's loss is {{}} times the baseline's, {basis}"
    told += OTHER_RECORDS if left_open else ""
    return judged(NAME, unsure_by(left_open, found), margin, told, decides)


def _tails(pair: Pair) -> tuple[list[list[Floats]], float]:
    """The losses of the last third, of every run where the others have theirs, and what that leaves open.

    Where too few records are of the same steps, losses between records are drawn straight.
    """
    begin = pair.after(2 / 3)
    tails = common_stretch(on_common_records(pair.curves), begin, pair.end)
    if len(tails[0][0]) >= _FEWEST_POINTS:
        return [[tail.loss for tail in side] for side in tails], 0.0
    tails = [[curve.between(begin, pair.end) for curve in side] for side in pair.curves]
    if min(len(tail) for side in tails for tail in side) < _FEWEST_POINTS:
        return [], 0.0
    places = np.unique(np.concatenate([tail.seen for side in tails for tail in side]))
    losses = [[curve.at(places) for curve in side] for side in pair.curves]
    steepest = max(abs(float(np.polyfit(places, np.log(loss), 1)[0])) for side in losses for loss in side)
    return losses, steepest * between_records(tails)


def between_records(curves: Sequence[Sequence[LossCurve]]) -> float:
    """How far off a place may be that is told by both sides' records together: half of what lies between two of each.

    A mean stands somewhere in its steps, and which loss was where between two records is not told.
    """
    return sum(max(float(np.diff(curve.seen).max()) for curve in side) for side in curves) / 2


def unsure_by(left_open: float, found: Between) -> Between:
    """With what may be off by so much to either side, all of it as likely: its deviation is a root of 3 smaller."""
    return replace(found, standard_error=math.hypot(found.standard_error, left_open / math.sqrt(3)))


def hac(differences: Floats) -> Between:
    """The mean of correlated differences of logarithms, with a Newey-West standard error.

    Bartlett's weights over n^(1/3) lags (Newey and West, Econometrica 55, 1987).
    """
    n = len(differences)
    x = differences - differences.mean()
    lags = max(1, round(n ** (1 / 3)))
    variance = float(x @ x) / n + 2 * sum(
        (1 - lag / (lags + 1)) * float(x[lag:] @ x[:-lag]) / n for lag in range(1, min(lags, n - 1) + 1)
    )
    mean = min(max(float(differences.mean()), -_MOST), _MOST)
    return Between(math.exp(mean), math.sqrt(max(variance, 0.0) / n), n / (2 * lags + 1))


def judged(name: str, found: Between, margin: float, sentence: str, decides: bool) -> Tier:
    """Equivalent by TOST passes; with 95 % beyond the margin fails; else it is not known.

    One seed a side, and another on each, decides little: what it shows may be the seed's. It never passes.
    """
    low, high = found.interval()
    figure = f"{found.value:.4f} [{low:.4f}, {high:.4f}]"
    beyond = low > 1 + margin or high < 1 - margin
    alike = found.equivalent(margin)
    status = Answer.FAIL if beyond else Answer.PASS if alike and decides else Answer.UNKNOWN
    words = "not within" if beyond else "equivalent within" if alike else "not shown to be within"
    seeds = f", which is an observation: {FEWEST} seeds a side decide" if status == Answer.UNKNOWN and alike else ""
    message = f"{sentence.format(figure)}: {words} {margin:.2%}{seeds}"
    return Tier(name, status, message, found.value, margin, low, high)
