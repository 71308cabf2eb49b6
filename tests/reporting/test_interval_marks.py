"""Marks of an interval plot lie where their ratios are, and none leaves the plot."""

import math

import pytest

from steelyard.reporting.interval_marks import DrawnPlot, drawn
from steelyard.reporting.page import IntervalPlot, Mark, Table, Track


def plot(*tracks: Track, margin: float = 0.05) -> DrawnPlot:
    return drawn(IntervalPlot("", "", tracks, margin, Table("", [], [])))


def track(value: float, low: float | None = None, high: float | None = None, *marks: float) -> Track:
    return Track("a", "", "", value=value, low=low, high=high, marks=[Mark("run", one) for one in marks])


def share(text: str | None) -> float:
    assert text is not None
    return float(text.removesuffix("%"))


def test_the_axis_is_logarithmic_so_that_twice_and_half_are_as_far_from_one() -> None:
    made = plot(track(2.0), track(0.5))
    first, second = (share(one.value) for one in made.tracks)
    assert first - share(made.even) == pytest.approx(share(made.even) - second, abs=0.01)
    assert 0 < second < share(made.even) < first < 100


def test_the_margin_lies_around_one() -> None:
    made = plot(track(1.2, 1.1, 1.3), margin=0.1)
    start, width = map(share, made.margin)
    assert start < share(made.even) < start + width < share(made.tracks[0].low) + 0.01
    assert made.tracks[0].high is not None


@pytest.mark.parametrize("high", [1e6, 1e300, math.inf])
def test_an_interval_without_end_leaves_the_plot_at_its_edge(high: float) -> None:
    made = plot(track(1.1, 1 / high, high))
    assert made.tracks[0].span == ("0.00%", "100.00%")
    assert made.tracks[0].low is made.tracks[0].high is None
    assert 20 < share(made.tracks[0].value) < 80


@pytest.mark.parametrize("value", [1.0, 1.0001, 0.97, 1.5, 3.9, 4.03, 80.0, 1e-6, 1e9])
def test_ticks_are_round_few_and_all_different(value: float) -> None:
    made = plot(track(value, value * 0.999, value * 1.001, value))
    texts = [text for _, text in made.ticks]
    assert 2 <= len(texts) <= 10
    assert len(set(texts)) == len(texts)
    assert all(0 <= share(at) <= 100 for at, _ in made.ticks)
    assert 0 <= share(made.tracks[0].marks[0][0]) <= 100


@pytest.mark.parametrize("value", [1.0, 1.0698, 0.93, 1.31, 2.4])
def test_ticks_reach_beyond_every_value_of_a_short_axis(value: float) -> None:
    made = plot(track(value, value * 0.99, value * 1.012, value * 0.985, value * 1.015))
    places = [share(at) for at, _ in made.ticks]
    assert min(places) <= min(share(at) for at, _ in made.tracks[0].marks)
    assert max(places) >= max(share(at) for at, _ in made.tracks[0].marks)
    assert math.isclose(min(places), 0.0, abs_tol=0.01)
    assert math.isclose(max(places), 100.0, abs_tol=0.01)
