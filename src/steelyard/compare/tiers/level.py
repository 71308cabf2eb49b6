"""The level of the last third: the mean of ln(target / baseline) where both have seen as much."""

import math

import numpy as np

from steelyard.compare.between_runs import FEWEST, Between, geometric_mean
from steelyard.compare.tiers.tier import Answer, Pair, Tier
from steelyard.records.columns import Floats

NAME = "level"
SAME_FRAMEWORK, ACROSS = 0.005, 0.01
_FEWEST_POINTS = 10
_MOST = 100.0
"""A ratio's logarithm is no larger, so that it stays a number."""


def ask(pair: Pair) -> Tier:
    margin = SAME_FRAMEWORK if pair.same("platform.framework") else ACROSS
    tails = [[curve.between(pair.after(2 / 3), pair.end) for curve in side] for side in pair.curves]
    if min(len(tail) for side in tails for tail in side) < _FEWEST_POINTS:
        few = f"fewer than {_FEWEST_POINTS} losses in the last third of {pair.up_to}"
        return Tier(NAME, Answer.UNKNOWN, few, margin=margin)
    seeds = pair.over_seeds([[geometric_mean(tail.loss) for tail in side] for side in tails])
    if seeds is not None:
        found, basis, decides = seeds.ratio, seeds.basis, seeds.decides
    else:
        places = np.unique(np.concatenate([tail.seen for side in tails for tail in side]))
        means = [np.mean([np.log(tail.at(places)) for tail in side], axis=0) for side in tails]
        found, basis = hac(means[0] - means[1]), "within these runs, which says nothing of another seed"
        decides = bool(pair.matched)  # of one start, chance is no excuse
    told = f"in the last third of {pair.up_to} the target's loss is {{}} times the baseline's, {basis}"
    return judged(NAME, found, margin, told, decides)


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
    """Equivalent by TOST passes; beyond the margin, and with 95 % not 1, fails; else it is not known.

    One seed a side, and another on each, decides little: what it shows may be the seed's. It never passes, and fails
    only where all of the interval is beyond the margin.
    """
    low, high = found.interval()
    figure = f"{found.value:.4f} [{low:.4f}, {high:.4f}]"
    beyond = abs(found.value - 1) > margin and not low <= 1 <= high
    if not decides:
        beyond = low > 1 + margin or high < 1 - margin
    alike = found.equivalent(margin)
    status = Answer.FAIL if beyond else Answer.PASS if alike and decides else Answer.UNKNOWN
    words = "not within" if beyond else "equivalent within" if alike else "not shown to be within"
    seeds = f", which is an observation: {FEWEST} seeds a side decide" if status == Answer.UNKNOWN and alike else ""
    message = f"{sentence.format(figure)}: {words} {margin:.2%}{seeds}"
    return Tier(name, status, message, found.value, margin, low, high)
