"""The within-run interval covers, for steps that remember the step before them."""

import numpy as np
import pytest

from steelyard.comparison.intervals import spread, within_runs


def ar1(rng: np.random.Generator, count: int, correlation: float) -> np.ndarray:
    noise = rng.standard_normal(count) * 0.01
    steps = np.empty(count)
    steps[0] = noise[0] / np.sqrt(1 - correlation**2)
    for at in range(1, count):
        steps[at] = correlation * steps[at - 1] + noise[at]
    return np.exp(steps)


@pytest.mark.parametrize(("correlation", "least"), [(0.0, 0.94), (0.5, 0.93), (0.8, 0.88)])
def test_two_equal_platforms_are_inside_their_interval(correlation: float, least: float) -> None:
    rng = np.random.default_rng(1)
    covered = 0
    for _ in range(2000):
        target, baseline = ar1(rng, 50, correlation), ar1(rng, 50, correlation)
        around = within_runs(baseline.sum() / target.sum(), spread(target), spread(baseline))
        assert around is not None
        covered += around[0] <= 1 <= around[1]
    assert covered / 2000 >= least


def test_swapped_sides_give_the_reciprocal() -> None:
    rng = np.random.default_rng(2)
    one, other = spread(ar1(rng, 60, 0.3)), spread(ar1(rng, 40, 0.3))
    low, high = within_runs(1.25, one, other) or (0, 0)
    back_low, back_high = within_runs(1 / 1.25, other, one) or (0, 0)
    assert (low, high) == pytest.approx((1 / back_high, 1 / back_low))


@pytest.mark.parametrize("times", [[], [1.0], [1.0, 1.1], [2.0] * 30])
def test_too_few_or_equal_times_have_no_spread(times: list[float]) -> None:
    assert spread(np.array(times)) is None
    assert within_runs(1.0, spread(np.array(times)), spread(np.array([1.0, 1.1, 1.2, 0.9]))) is None


def test_a_trend_is_worth_few_steps() -> None:
    found = spread(np.linspace(1, 2, 100))
    assert found is not None
    assert found.effective_steps < 5


def test_slow_steps_widen_the_interval_they_move_the_ratio_by() -> None:
    rng = np.random.default_rng(3)
    covered = 0
    for _ in range(500):
        sides = [np.where(rng.random(200) < 0.1, 3.0, 1.0) * ar1(rng, 200, 0.0) for _ in range(2)]
        low, high = within_runs(sides[1].sum() / sides[0].sum(), *map(spread, sides)) or (0, 0)
        covered += low <= 1 <= high
    assert covered / 500 >= 0.92
