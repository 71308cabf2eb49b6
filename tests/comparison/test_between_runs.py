"""Whole runs decide: intervals between them, equivalence, and the words they allow."""

import math
from dataclasses import replace

import numpy as np
import pytest

from steelyard.comparison.intervals import (
    Outcome,
    Words,
    between,
    error_at,
    interval_at,
    more_runs,
    outcome_of,
)

TERMS = Words("faster", "slower")


def about(value: float, runs: int, spread: float) -> list[float]:
    """Figures around a value, evenly."""
    return [value * math.exp(spread * (2 * at / (runs - 1) - 1)) for at in range(runs)]


@pytest.mark.parametrize("counts", [(1, 1), (2, 2), (2, 5), (5, 1)])
def test_fewer_than_three_runs_a_side_give_no_interval(counts: tuple[int, int]) -> None:
    assert between([1.0] * counts[0], [1.0] * counts[1]) is None


def test_the_interval_is_welch_s_on_logarithms() -> None:
    from scipy.stats import ttest_ind

    chance = np.random.default_rng(3)
    ours, theirs = chance.lognormal(0.1, 0.02, 5), chance.lognormal(0.0, 0.05, 5)
    found = between(list(ours), list(theirs))
    assert found is not None
    peer = ttest_ind(np.log(ours), np.log(theirs), equal_var=False).confidence_interval(0.95)
    assert found.interval() == pytest.approx((math.exp(peer.low), math.exp(peer.high)), rel=1e-9)


@pytest.mark.parametrize(
    ("ratio", "spread", "outcome", "words"),
    [
        (1.20, 0.01, Outcome.BETTER, "faster"),
        (0.80, 0.01, Outcome.WORSE, "slower"),
        (1.001, 0.01, Outcome.EQUIVALENT, "equivalent within 5%"),
        (1.06, 0.02, Outcome.MARGINALLY_BETTER, "faster, maybe by less than 5%"),
        (0.94, 0.02, Outcome.MARGINALLY_WORSE, "slower, maybe by less than 5%"),
        (1.02, 0.10, Outcome.INCONCLUSIVE, "inconclusive"),
    ],
)
def test_the_outcome_follows_from_the_interval_and_the_margin(
    ratio: float, spread: float, outcome: Outcome, words: str
) -> None:
    found = between(about(ratio, 5, spread), about(1.0, 5, spread))
    assert found is not None
    assert (outcome_of(found), TERMS.of(outcome, 0.05)) == (outcome, words)
    assert outcome.decided == (outcome != Outcome.INCONCLUSIVE)


def test_a_wider_margin_makes_faster_a_maybe() -> None:
    found = between(about(1.2, 5, 0.01), about(1.0, 5, 0.01))
    assert found is not None
    assert outcome_of(found, 0.25) == Outcome.EQUIVALENT


def test_so_many_more_runs_decide_it() -> None:
    found = between(about(1.02, 5, 0.04), about(1.0, 5, 0.04))
    assert found is not None
    assert outcome_of(found) == Outcome.INCONCLUSIVE
    more = more_runs(found, 5)
    assert more is not None
    assert more >= 1
    spread = 0.04 * math.sqrt(np.var([2 * at / 4 - 1 for at in range(5)], ddof=1))
    chance = np.random.default_rng(5)
    scores = chance.standard_normal(5 + more)
    scores = (scores - scores.mean()) / scores.std(ddof=1) * spread  # runs that vary as the first did
    again = between(list(1.02 * np.exp(scores)), list(np.exp(scores)))
    assert again is not None
    assert outcome_of(again, look=2).decided


def test_where_runs_differ_so_much_no_number_of_them_is_named() -> None:
    found = between(about(1.001, 3, 0.9), about(1.0, 3, 0.9))
    assert found is not None
    assert outcome_of(found) == Outcome.INCONCLUSIVE
    assert more_runs(found, 3) is None


@pytest.mark.parametrize("still", [[2.0] * 3, [2.0, 2.0 + 1e-10, 2.0]])
def test_runs_that_vary_in_nothing_have_no_interval(still: list[float]) -> None:
    assert between(still, about(1.0, 3, 0.01)) is None
    assert between(about(1.0, 3, 0.01), still) is None
    assert between([2.0, 2.0 + 1e-8, 2.0], about(1.0, 3, 0.01)) is not None


@pytest.mark.parametrize(("few", "many"), [(3, 8), (3, 20), (5, 20)])
def test_unequal_numbers_of_runs_keep_the_coverage(few: int, many: int) -> None:
    chance, covered = np.random.default_rng(6), 0
    for _ in range(4000):
        found = between(list(chance.lognormal(0, 0.01, few)), list(chance.lognormal(0, 0.01, many)))
        assert found is not None
        low, high = found.interval()
        covered += low <= 1 <= high
    assert covered / 4000 >= 0.935


def test_all_looks_together_spend_five_percent() -> None:
    assert [error_at(look) for look in (1, 2, 3)] == pytest.approx([0.04, 0.008, 0.0016])
    assert sum(error_at(look) for look in range(1, 50)) == pytest.approx(0.05)


def test_a_later_look_needs_more() -> None:
    found = between(about(1.03, 5, 0.018), about(1.0, 5, 0.018))
    assert found is not None
    outcomes = [outcome_of(found, 0.02, look) for look in (1, 2, 3)]
    assert outcomes[0].decided
    assert outcomes[-1] == Outcome.INCONCLUSIVE
    widths = [high - low for low, high in (interval_at(found, look) for look in (1, 2, 3))]
    assert found.interval() == interval_at(found, 1)
    assert widths == sorted(widths)


def test_equal_platforms_compared_until_decided_are_called_different_in_five_percent_at_most() -> None:
    chance, wrong, campaigns = np.random.default_rng(8), 0, 400
    for _ in range(campaigns):
        sides = [list(chance.lognormal(0, 0.05, 3)) for _ in range(2)]
        for look in range(1, 6):
            found = between(*sides)
            assert found is not None
            outcome = outcome_of(found, look=look)
            more = more_runs(found, len(sides[0]), look=look)
            if outcome.decided or more is None:
                break
            for side in sides:
                side += list(chance.lognormal(0, 0.05, more))
        wrong += outcome.above or outcome.below
    assert wrong / campaigns <= 0.05


def test_a_drift_that_remains_widens_the_interval_to_its_end() -> None:
    found = between(about(1.0, 5, 0.001), about(1.0, 5, 0.001))
    assert found is not None
    (low, high), (moved_low, moved_high) = found.interval(), replace(found, drift=0.1).interval()
    assert (moved_low, moved_high) == pytest.approx((low, high * math.exp(0.1)))
    assert outcome_of(found) == Outcome.EQUIVALENT
    assert outcome_of(replace(found, drift=0.1)) == Outcome.INCONCLUSIVE
    assert replace(found, drift=0.1).below(1.05) > 0.9
    assert found.below(1.05) < 0.01
