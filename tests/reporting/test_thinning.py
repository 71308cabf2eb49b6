"""A thinned curve loses no spike, no dip, no gap and no end."""

import numpy as np

from steelyard.records import Column
from steelyard.reporting.thinning import STRETCHES, keep, reach, stretches, thinned


def column(values: np.ndarray, given: np.ndarray | None = None) -> Column:
    return Column(values, np.ones(len(values), dtype=bool) if given is None else given)


def test_a_short_curve_is_kept_whole() -> None:
    assert keep(np.arange(4.0 * STRETCHES)).tolist() == list(range(4 * STRETCHES))


def test_every_spike_and_every_dip_of_a_million_steps_stays() -> None:
    rng = np.random.default_rng(0)
    values = rng.standard_normal(1_000_000)
    spikes = rng.choice(1_000_000, 300, replace=False)
    values[spikes[:150]] = 100 + rng.random(150)
    values[spikes[150:]] = -100 - rng.random(150)
    kept = keep(values)
    assert len(kept) <= 5 * STRETCHES
    size = 500  # steps of a stretch: the most extreme of each stays
    for spike in spikes:
        stretch = slice(spike // size * size, spike // size * size + size)
        extreme = values[stretch].max() if values[spike] > 0 else values[stretch].min()
        assert extreme in values[kept]
    assert {0, 999_999} <= set(kept.tolist())


def test_counts_that_do_not_divide_keep_their_last_step() -> None:
    for count in (8001, 8999, 123_457):
        kept = keep(np.arange(float(count)))
        assert kept[0] == 0
        assert kept[-1] == count - 1
        assert (np.diff(kept) > 0).all()


def test_gaps_and_places_that_are_not_finite_stay() -> None:
    values = np.ones(100_000)
    values[50_000] = np.nan
    values[70_000:70_100] = np.nan
    given = np.ones(100_000, dtype=bool)
    given[70_000:70_100] = False
    line = thinned("a", np.arange(1, 100_001), column(values, given))
    assert list(line.broken) == [(50_001, 50_001)]
    assert None in line.y
    assert 50_001 in line.x


def test_a_stretch_without_a_value_is_a_gap() -> None:
    values = np.ones(100_000)
    values[10_000:20_000] = np.nan
    line = thinned("a", np.arange(100_000), column(values, ~np.isnan(values)))
    inside = [y for x, y in zip(line.x, line.y, strict=True) if 10_000 <= x < 20_000]
    assert inside
    assert set(inside) == {None}


def test_every_stretch_that_is_not_finite_is_kept_by_its_ends() -> None:
    values = np.ones(20_000)
    values[[99, 4999]] = np.nan
    values[10_000:] = np.inf
    line = thinned("a", np.arange(1, 20_001), column(values))
    assert list(line.broken) == [(100, 100), (5000, 5000), (10_001, 20_000)]


def test_of_too_many_such_stretches_one_stays_in_each_part_and_none_is_made_longer() -> None:
    values = np.ones(100_000)
    values[::7] = np.nan
    line = thinned("a", np.arange(100_000), column(values), 100)
    assert len(line.broken) == 100
    assert all(first == last and first % 7 == 0 for first, last in line.broken)
    assert np.diff([first for first, _ in line.broken]).max() <= 1007


def test_many_curves_share_the_room_of_a_plot() -> None:
    assert stretches(1) == stretches(2) == STRETCHES
    assert stretches(16) * 16 * 4 <= 50_000
    assert stretches(1000) == 100


def test_the_reach_of_several_curves_is_at_steps_that_all_have() -> None:
    first = np.arange(1, 11), column(np.arange(10.0))
    second = np.arange(3, 13), column(np.full(10, 4.0))
    found = reach("a", [first, second])
    assert found is not None
    assert found.x == list(range(3, 11))
    assert found.low == [2.0, 3.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0]
    assert found.high == [4.0, 4.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]


def test_the_reach_of_a_million_steps_is_short_and_keeps_a_spike() -> None:
    values = np.ones(1_000_000)
    values[777_777] = 50.0
    steps = np.arange(1, 1_000_001)
    found = reach("a", [(steps, column(values)), (steps, column(np.zeros(1_000_000)))])
    assert found is not None
    assert len(found.x) <= 500
    assert max(found.high) == 50.0
    assert min(found.low) == 0.0
    assert (found.x[0], found.x[-1]) == (1, 1_000_000)


def test_curves_that_share_no_step_have_no_reach() -> None:
    assert reach("a", [(np.array([1]), column(np.ones(1))), (np.array([2]), column(np.ones(1)))]) is None


def test_values_that_are_not_finite_have_no_part_in_a_reach() -> None:
    steps, values = np.arange(1, 5), np.array([1.0, np.nan, 3.0, np.inf])
    found = reach("a", [(steps, column(values)), (steps, column(np.ones(4)))])
    assert found is not None
    assert found.x == [1, 3]
