"""The mean ratio over the cells of a suite, and what holds of each cell when all are asked at once.

With twenty cells on equal platforms, one looks faster by chance. Holm's adjustment limits the chance of any such result
in the suite to 5%.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import compress

from steelyard.campaign.suite_comparison import CellPair, Mean
from steelyard.comparison import Metric
from steelyard.comparison.intervals import (
    BETWEEN_RUNS,
    LEVEL,
    Between,
    Outcome,
    error_at,
    geometric_mean,
    outcome_of,
)
from steelyard.comparison.ratios import TERMS

_ERROR = error_at(1)
"""Chance of any wrong result of one kind over all cells."""
_ABOVE = (Outcome.BETTER, Outcome.EQUIVALENT, Outcome.MARGINALLY_BETTER)
_BELOW = (Outcome.WORSE, Outcome.EQUIVALENT, Outcome.MARGINALLY_WORSE)
"""Outcomes of a ratio that is beyond the margin, inside it, or different from 1."""


def mean_of(pairs: Sequence[CellPair], metric: Metric, margin: float) -> Mean | None:
    """Over the cells that both sides have; without an interval if one of them has none."""
    ratios = [ratio for pair in pairs if (ratio := pair.ratio(metric)) is not None]
    if not ratios:
        return None
    known = [between for pair in pairs if (between := pair.between(metric)) is not None]
    if len(known) < len(ratios):
        value = geometric_mean([ratio.value for ratio in ratios])
        few = "observation: each cell needs three settled runs per side"
        return Mean(value, None, None, LEVEL, few, None, Outcome.TOO_FEW_RUNS, len(ratios))
    overall = mean(known)
    low, high = overall.interval()
    outcome = outcome_of(overall, margin)
    return Mean(overall.value, low, high, LEVEL, TERMS[metric].of(outcome, margin), BETWEEN_RUNS, outcome, len(ratios))


def mean(ratios: Sequence[Between]) -> Between:
    """The geometric mean of independent ratios, with Welch-Satterthwaite degrees of freedom."""
    variances = [ratio.standard_error**2 for ratio in ratios]
    shares = sum(variance**2 / ratio.freedom for variance, ratio in zip(variances, ratios, strict=True))
    return Between(
        value=math.exp(sum(math.log(ratio.value) for ratio in ratios) / len(ratios)),
        standard_error=math.sqrt(sum(variances)) / len(ratios),
        freedom=sum(variances) ** 2 / shares if shares else math.inf,
        drift=sum(ratio.drift for ratio in ratios) / len(ratios),
    )


def holm(chances: Sequence[float]) -> list[float]:
    """P-values adjusted by Holm's method: with true null hypotheses, at most 5% of suites have one below 5%."""
    adjusted, highest = [0.0] * len(chances), 0.0
    for rank, at in enumerate(sorted(range(len(chances)), key=chances.__getitem__)):
        highest = max(highest, min(1.0, chances[at] * (len(chances) - rank)))
        adjusted[at] = highest
    return adjusted


def adjusted(pairs: Sequence[CellPair], metric: Metric, margin: float) -> Iterator[str | None]:
    known = [pair.between(metric) for pair in pairs]
    outcomes = iter(adjusted_outcomes([each for each in known if each is not None], margin))
    for each in known:
        yield None if each is None else TERMS[metric].of(next(outcomes), margin)


def adjusted_outcomes(ratios: Sequence[Between], margin: float) -> list[Outcome]:
    """The outcome of each ratio, with each kind of test adjusted over all."""
    beyond = _significant(ratios, lambda ratio: 2 * min(ratio.above(1 + margin), ratio.below(1 - margin)))
    equal = _significant(ratios, lambda ratio: max(ratio.above(1 - margin), ratio.below(1 + margin)))
    apart = _significant(ratios, lambda ratio: 2 * min(ratio.above(1), ratio.below(1)))
    outcomes = []
    for ratio, *significant in zip(ratios, beyond, equal, apart, strict=True):
        ladder = _ABOVE if ratio.value > 1 else _BELOW
        outcomes.append(next(compress(ladder, significant), Outcome.INCONCLUSIVE))
    return outcomes


def _significant(ratios: Sequence[Between], chance: Callable[[Between], float]) -> list[bool]:
    return [adjusted < _ERROR for adjusted in holm([chance(ratio) for ratio in ratios])]
