"""A thinned curve loses no spike, no dip, no gap and no end."""

import numpy as np

from steelyard.records import Column
from steelyard.report.thinning import STRETCHES, keep, stretches, thinned


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
