"""A slow node is one that is slower at nearly every step, and by more than the clock's noise."""

import numpy as np
import pytest

from steelyard.accounting.stragglers import LEAST_STEPS, is_clearly_slow, robust_z, stragglers

STEPS = np.arange(1, 201)


def node(factor: float, seed: int = 0, noise: float = 0.01) -> tuple[np.ndarray, np.ndarray]:
    return STEPS, factor * 0.5 * (1 + noise * np.random.default_rng(seed).standard_normal(len(STEPS)))


def named(**nodes: tuple[np.ndarray, np.ndarray]) -> list[str]:
    return [one.node for one in stragglers(nodes)]


@pytest.mark.parametrize("count", [2, 3, 8])
def test_the_slow_one_is_named_among_any_number_with_its_factor(count: int) -> None:
    nodes = {f"gpu{at}": node(1.0, at) for at in range(count - 1)} | {"slow": node(1.25, 99)}
    (one,) = stragglers(nodes)
    assert (one.node, one.steps) == ("slow", 200)
    assert one.factor == pytest.approx(1.25, rel=0.02)
    assert (one.median_s, one.others_median_s) == pytest.approx((0.625, 0.5), rel=0.02)
    assert one.share > 0.99


def test_two_slow_ones_are_named_the_slowest_first() -> None:
    assert named(a=node(1.0, 1), b=node(1.0, 2), c=node(1.2, 3), d=node(1.0, 4), e=node(1.6, 5)) == ["e", "c"]


def test_noise_and_a_fast_node_name_nobody() -> None:
    assert named(a=node(1.0, 1), b=node(1.04, 2), c=node(1.02, 3)) == []
    assert named(a=node(1.0, 1), b=node(1.0, 2), c=node(0.8, 3)) == []


def test_a_node_that_is_slow_for_a_while_is_not_slow() -> None:
    steps, times = node(1.0, 1)
    assert named(a=node(1.0, 2), b=(steps, np.where(steps < 120, 2 * times, times))) == []


def test_only_steps_that_all_report_count_in_whatever_order() -> None:
    steps, times = node(1.5, 1)
    few = slice(0, LEAST_STEPS - 1)
    assert named(a=node(1.0, 2), b=(steps[few], times[few])) == []
    assert named(a=node(1.0, 2), b=(steps + 500, times)) == []
    assert named(a=node(1.0, 2), b=(steps[::-1], times[::-1])) == ["b"]


def test_times_that_are_none_are_passed_over_and_one_node_is_no_job() -> None:
    steps, times = node(1.5, 1)
    assert named(a=node(1.0, 2), b=(steps, np.where(steps % 2, times, np.nan))) == ["b"]
    assert named(b=(steps, times)) == []
    assert named(a=node(1.0, 2), b=(steps, np.full(len(steps), np.nan))) == []


def test_a_node_is_clearly_slow_a_tenth_and_three_sigma_below_the_median_of_four() -> None:
    assert is_clearly_slow(82, [100, 100.4, 99.7, 100.1, 82])
    assert not is_clearly_slow(82, [100, 100.4, 82])  # three have no spread to speak of
    assert not is_clearly_slow(91, [100, 100.4, 99.7, 100.1, 91])
    assert not is_clearly_slow(80, [100, 112, 88, 95, 80])  # the others differ as much
    assert is_clearly_slow(89, [100, 100, 100, 89])
    assert robust_z(89, [100, 100, 100, 89]) is None
    (slow,) = stragglers({f"gpu{at}": node(1.3 if at == 3 else 1 + at / 1000, at) for at in range(5)})
    assert (slow.node, slow.clearly) == ("gpu3", True)
    (slow,) = stragglers({f"gpu{at}": node(1.08 if at == 3 else 1 + at / 1000, at) for at in range(5)})
    assert (slow.node, slow.clearly) == ("gpu3", False)
