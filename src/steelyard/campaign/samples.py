"""What a sample of repeats can promise: its assumptions, signs against them, and a bound without them."""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import NamedTuple

import numpy as np

from steelyard.comparison.intervals import vary
from steelyard.comparison.turns import period
from steelyard.reasons import Code, Reason
from steelyard.records.columns import Floats
from steelyard.verdict import Subject

FEWEST_FREE = 20
"""Fewest runs for a bound without an assumption about the distribution; its confidence is then 64%."""
_DAY = timedelta(hours=24)
_ERROR = 0.05
"""Share of normal samples that are reported as two groups."""
_DRAWN = 4000
"""Normal samples that a sample is compared with, always the same ones."""

NORMAL = Code(
    "learn_normal", "assumption: runs vary like a normal distribution around one mean, and later runs vary like these"
)
"""The bound assumes one normal distribution. A slowdown that none of these runs shows is not in the bound."""
TWO_GROUPS = Code(
    "learn_two_groups",
    "the figures form two groups, {low_count} near {low:.4g} and {high_count} near {high:.4g}, not one normal "
    "distribution: find the cause, or learn from {fewest} or more runs",
)
"""The figures form two groups, as with one slow host or mode. The normal bound does not apply to them."""
ONE_DAY = Code(
    "learn_one_day", "all runs began within {hours:.3g} hours: other days may differ, so add runs of other days"
)
"""All runs are from one day, so the bound contains no difference between days."""
FREE_BOUND = Code(
    "learn_free_bound",
    "without the assumption: {bound:.7g}, met by {share:.0%} of runs with {confidence:.0%} confidence",
)
"""A bound from the ordered figures alone. From 59 runs on its confidence is 95%."""


class Groups(NamedTuple):
    """The two groups that a sample falls into."""

    low_count: int
    low: float
    """The mean of the lower group."""
    high_count: int
    high: float


class FreeBound(NamedTuple):
    """An order statistic as a bound."""

    bound: float
    confidence: float


def two_groups(values: Floats) -> Groups | None:
    """The two groups of a sample, if it falls apart more than 95% of normal samples do.

    The measure is the share of the variance between the groups, at the best split of the ordered figures.
    """
    if len(values) < 4 or not vary(values):
        return None
    ordered = np.sort(values)
    between, split = _split(ordered)
    drawn, _ = _split(np.sort(np.random.default_rng(0).standard_normal((_DRAWN, len(values))), axis=1))
    if between[()] <= np.quantile(drawn, 1 - _ERROR):
        return None
    low, high = np.split(ordered, [int(split[()])])
    return Groups(len(low), float(low.mean()), len(high), float(high.mean()))


def _split(ordered: Floats) -> tuple[Floats, Floats]:
    """The largest share of the variance between two groups of ordered figures, and the size of the lower group."""
    n = ordered.shape[-1]
    apart = ordered - ordered.mean(axis=-1, keepdims=True)
    below = np.arange(1, n)
    between = apart.cumsum(axis=-1)[..., :-1] ** 2 * (1 / below + 1 / (n - below))
    return between.max(axis=-1) / (apart**2).sum(axis=-1), between.argmax(axis=-1) + 1


def free_bound(values: Floats, at_most: bool, share: float, confidence: float) -> FreeBound | None:
    """The strictest order statistic that this share of runs meets with this confidence; else the extreme figure.

    The rank-th lowest of n figures is below the quantile of 1 - share if at least `rank` figures are (Wilks, 1941).
    """
    from scipy.special import bdtrc

    n = len(values)
    if n < FEWEST_FREE:
        return None
    reached = [float(bdtrc(rank - 1, n, 1 - share)) for rank in range(1, n + 1)]
    rank = max(1, sum(chance >= confidence for chance in reached))
    ordered = np.sort(values)
    return FreeBound(float(ordered[-rank] if at_most else ordered[rank - 1]), reached[rank - 1])


def one_day(subjects: Sequence[Subject]) -> Iterator[Reason]:
    """Whether all runs are from one day; nothing where a run has no timestamps."""
    periods = [period(subject) for subject in subjects]
    began = [known[0].replace(tzinfo=None) for known in periods if known is not None]
    if len(began) == len(periods) > 1 and (extent := max(began) - min(began)) < _DAY:
        yield Reason(ONE_DAY, {"hours": extent.total_seconds() / 3600})
