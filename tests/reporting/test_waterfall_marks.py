"""Bars of a waterfall start where the one before ends, and none leaves the plot."""

import math
from itertools import pairwise

import pytest

from steelyard.reporting.page import Stage, Table, Tone, WaterfallPlot
from steelyard.reporting.waterfall_marks import DrawnStage, drawn


def stage(start: float, end: float, low: float | None = None, high: float | None = None) -> Stage:
    return Stage("a", "", "", start, end, low, high, Tone.GOOD)


def places(*stages: Stage) -> list[DrawnStage]:
    return list(drawn(WaterfallPlot("", "", stages, Table("", [], []))).stages)


def share(text: str | None) -> float:
    assert text is not None
    return float(text.removesuffix("%"))


def test_equal_factors_have_bars_of_equal_width() -> None:
    first, second, third = places(stage(1.0, 2.0), stage(2.0, 4.0), stage(4.0, 2.0))
    assert share(first.bar[1]) == pytest.approx(share(second.bar[1]), abs=0.02)
    assert share(third.bar[1]) == pytest.approx(share(second.bar[1]), abs=0.02)
    assert (third.bar[0], third.end) == (second.bar[0], second.bar[0])


def test_each_bar_hangs_from_the_end_of_the_one_before_and_the_total_too() -> None:
    total = Stage("all", "", "", 1.0, 1.8, tone=Tone.NOTE, is_total=True)
    made = places(stage(1.0, 1.5), stage(1.5, 1.2), stage(1.2, 1.8), total)
    for before, after in pairwise(made):
        assert after.joint == before.end
    assert share(made[-1].bar[0]) == share(made[0].bar[0])


@pytest.mark.parametrize("high", [1e6, math.inf])
def test_an_interval_without_end_leaves_the_plot_at_its_edge(high: float) -> None:
    first, second = places(stage(1.0, 1.1, 1.05, 1.15), stage(1.1, 1.2, 1 / high, high))
    assert (second.low, second.high) == (None, None)
    assert second.span == ("0.00%", "100.00%")
    assert 0 < share(first.low) < share(first.end) < share(first.high) < 100
