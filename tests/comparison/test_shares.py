"""What each change of a ladder makes of a gap: factors that multiply to it, and shares with honest intervals."""

import math
from collections.abc import Sequence

import numpy as np
import pytest

from steelyard.comparison.intervals import between, paired
from steelyard.comparison.shares import Ladder, of_rungs

RUNGS = ([100.0, 104.0, 97.0], [121.0, 124.0, 118.0], [115.0, 121.0, 113.0])
TARGET = [140.0, 143.0, 139.0, 144.0]
TRUE = (0.0, 0.1, 0.3, 0.25, 0.5)
"""Logarithms of four rungs and of the target."""
NOISE = (0.02, 0.05, 0.01, 0.03, 0.02)


def test_factors_multiply_to_the_gap_and_shares_add_up_to_one() -> None:
    ladder = Ladder(RUNGS, TARGET)
    factors = [*ladder.steps(), ladder.rest()]
    assert math.prod(factor.value for factor in factors if factor) == pytest.approx(ladder.gap().value, rel=1e-12)
    assert sum(factor.share.value for factor in factors if factor and factor.share) == pytest.approx(1, rel=1e-12)
    assert ladder.gap().value == pytest.approx(math.prod(TARGET) ** 0.25 / math.prod(RUNGS[0]) ** (1 / 3))
    steps = Ladder(RUNGS).steps()
    assert math.prod(step.value for step in steps) == pytest.approx(Ladder(RUNGS).gap().value, rel=1e-12)


def test_rungs_are_compared_within_repeats_and_the_target_between_runs() -> None:
    ladder = Ladder(RUNGS, TARGET)
    first, _ = ladder.steps()
    assert first.estimate == paired(list(zip(RUNGS[1], RUNGS[0], strict=True)))
    rest = ladder.rest()
    assert rest is not None
    assert rest.estimate == between(TARGET, RUNGS[2])
    assert ladder.gap().estimate == between(TARGET, RUNGS[0])
    assert Ladder(RUNGS).rest() is None


def test_the_share_of_the_only_step_is_one() -> None:
    (only,) = Ladder(RUNGS[:2]).steps()
    assert only.share is not None
    assert (only.share.value, only.share.low, only.share.high) == pytest.approx((1, 1, 1))


@pytest.mark.parametrize(
    ("rungs", "target"),
    [
        ([[100.0, 101.0], [110.0, 112.0]], []),  # two repeats
        ([[100.0, 101.0, 99.0], [110.0, 111.1, 108.9]], []),  # no spread
        (RUNGS, [140.0]),  # one run of the target
    ],
)
def test_without_an_interval_there_is_no_share(rungs: Sequence[Sequence[float]], target: Sequence[float]) -> None:
    ladder = Ladder(rungs, target)
    assert all(step.share is None for step in ladder.steps())
    assert (ladder.rest() or ladder.gap()).interval is None
    assert not ladder.gap().within_noise


def test_a_gap_within_noise_has_no_shares() -> None:
    ladder = Ladder(([100.0, 104.0, 97.0], [121.0, 124.0, 118.0], [99.0, 106.0, 96.0]))
    assert ladder.gap().within_noise
    assert [step.share for step in ladder.steps()] == [None, None]
    assert not ladder.steps()[0].within_noise


def test_one_ratio_of_pairs_is_students_t() -> None:
    factor = of_rungs([(110.0, 100.0), (112.0, 101.0), (109.0, 100.0)])
    logs = np.log([1.1, 112 / 101, 1.09])
    half = 4.302653 * logs.std(ddof=1) / math.sqrt(3)  # qt(0.975, 2)
    assert factor.interval == pytest.approx((math.exp(logs.mean() - half), math.exp(logs.mean() + half)), rel=1e-6)


@pytest.mark.parametrize(("repeats", "runs"), [(3, 3), (5, 5), (4, 0)])
def test_intervals_cover_the_truth_in_95_percent_of_ladders(repeats: int, runs: int) -> None:
    draw, draws, last = np.random.default_rng(repeats), 800, len(TRUE) - 1
    hits, known = np.zeros((2, last)), 0
    for _ in range(draws):
        weather = draw.normal(0, 0.02, repeats)  # of all rungs of a repeat
        rungs = [list(np.exp(TRUE[at] + weather + draw.normal(0, NOISE[at], repeats))) for at in range(last)]
        ladder = Ladder(rungs, list(np.exp(draw.normal(TRUE[last], NOISE[last], runs))))
        rest = ladder.rest()
        factors = [*ladder.steps(), *([rest] if rest else [])]
        true = np.diff(TRUE)[: len(factors)]
        shares = [factor.share for factor in factors if factor.share]
        known += len(shares) == len(factors)
        for at, (factor, value) in enumerate(zip(factors, true, strict=True)):
            assert factor.interval is not None
            hits[0, at] += factor.interval[0] <= math.exp(value) <= factor.interval[1]
        for at, (share, value) in enumerate(zip(shares, true / true.sum(), strict=False)):
            hits[1, at] += share.low <= value <= share.high
    assert known == draws
    covered = hits[:, : last if runs else last - 1] / draws
    assert covered.min() > 0.92
    assert covered.max() < 0.98
