"""The level of the last third: the mean of ln(target / baseline) where both have seen as much."""

import math

import numpy as np

from steelyard.compare.between_runs import FEWEST, Between, between
from steelyard.compare.tiers.tier import Answer, Pair, Tier
from steelyard.records.columns import Floats

NAME = "level"
SAME_FRAMEWORK, ACROSS = 0.005, 0.01
_FEWEST_POINTS = 10


def ask(pair: Pair) -> Tier:
    margin = max(SAME_FRAMEWORK if pair.same("platform.framework") else ACROSS, pair.rounding())
    first = 2 / 3 * pair.end
    tails = [[curve.between(first, pair.end) for curve in side] for side in pair.curves]
    if min(len(tail) for side in tails for tail in side) < _FEWEST_POINTS:
        return Tier(NAME, Answer.UNKNOWN, f"fewer than {_FEWEST_POINTS} losses in the last third", margin=margin)
    counts = [len(side) for side in tails]
    if min(counts) >= FEWEST:
        figures = [[math.exp(float(np.log(tail.loss).mean())) for tail in side] for side in tails]
        found, basis = between(*figures), f"between {counts[0]} and {counts[1]} runs"
        assert found is not None
    else:
        places = np.unique(np.concatenate([tail.seen for side in tails for tail in side]))
        means = [np.mean([np.log(tail.at(places)) for tail in side], axis=0) for side in tails]
        found, basis = hac(means[0] - means[1]), "within these runs, which says nothing of another seed"
    return judged(NAME, found, margin, f"in the last third the target's loss is {{}} times the baseline's, {basis}")


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
    return Between(math.exp(float(differences.mean())), math.sqrt(max(variance, 0.0) / n), n / (2 * lags + 1))


def judged(name: str, found: Between, margin: float, sentence: str) -> Tier:
    """Equivalent by TOST passes; beyond the margin, and with 95 % not 1, fails; else it is not known."""
    low, high = found.interval()
    figure = f"{found.value:.4f} [{low:.4f}, {high:.4f}]"
    beyond = abs(found.value - 1) > margin and not low <= 1 <= high
    status = Answer.PASS if found.equivalent(margin) else Answer.FAIL if beyond else Answer.UNKNOWN
    words = {Answer.PASS: "equivalent within", Answer.FAIL: "not within", Answer.UNKNOWN: "not shown to be within"}
    message = f"{sentence.format(figure)}: {words[status]} {margin:.2%}"
    return Tier(name, status, message, found.value, margin, low, high)
