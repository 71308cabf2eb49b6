"""Signs against the assumptions of a learned threshold, and the bound that needs none."""

import numpy as np
import pytest

from steelyard.campaign.samples import free_bound, two_groups


@pytest.mark.parametrize("n", [5, 10, 30])
def test_one_normal_population_is_rarely_called_two_groups(n: int) -> None:
    chance = np.random.default_rng(1)
    found = [two_groups(chance.normal(100, 1, n)) is not None for _ in range(400)]
    assert np.mean(found) <= 0.08


@pytest.mark.parametrize(("n", "least"), [(5, 0.35), (10, 0.8), (30, 0.95)])
def test_one_slow_run_of_five_is_found_where_the_sample_contains_one(n: int, least: float) -> None:
    chance, found = np.random.default_rng(2), []
    for _ in range(300):
        slow = chance.random(n) < 0.2
        if slow.any() and not slow.all():
            found.append(two_groups(chance.normal(100, 1, n) - 8 * slow) is not None)
    assert np.mean(found) >= least


def test_the_groups_are_counted_with_their_means() -> None:
    groups = two_groups(np.array([100.0, 92.0, 100.2, 92.2, 99.8, 100.1, 99.9, 91.9]))
    assert groups is not None
    assert (groups.low_count, groups.high_count) == (3, 5)
    assert (groups.low, groups.high) == pytest.approx((92.03, 100.0), abs=0.01)


@pytest.mark.parametrize(
    ("n", "rank", "confidence"), [(20, 1, 0.6415), (59, 1, 0.9515), (92, 1, 0.991), (93, 2, 0.9500)]
)
def test_the_bound_is_the_order_statistic_of_the_tables(n: int, rank: int, confidence: float) -> None:
    """Wilks: 59 figures for 95/95 with the lowest, 93 with the second lowest."""
    values = np.arange(n, dtype=float)
    lowest, highest = (free_bound(values, at_most, 0.95, 0.95) for at_most in (False, True))
    assert lowest is not None
    assert highest is not None
    assert (lowest.bound, highest.bound) == (rank - 1, n - rank)
    assert lowest.confidence == pytest.approx(confidence, abs=1e-3)


def test_below_twenty_runs_there_is_no_such_bound() -> None:
    assert free_bound(np.arange(19.0), False, 0.95, 0.95) is None


def test_the_bound_keeps_its_promise_without_a_normal_distribution() -> None:
    """One run in ten is slow: 95 % of runs meet the bound as often as it says."""
    chance, kept = np.random.default_rng(3), []
    for _ in range(2000):
        slow = chance.random(59) < 0.1
        bound = free_bound(chance.normal(100, 1, 59) - 8 * slow, False, 0.95, 0.95)
        assert bound is not None
        kept.append(bound.bound <= 91.9)  # the 5 % quantile: the middle of the slow runs is 92
    assert np.mean(kept) >= 0.94
