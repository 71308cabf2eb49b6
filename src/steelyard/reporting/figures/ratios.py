"""Draws ratios with their intervals, waterfalls of factors, and bars of several places."""

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from steelyard.reporting import interval_marks, waterfall_marks
from steelyard.reporting.bars import Bars
from steelyard.reporting.figures.common import (
    BAND,
    HEIGHT,
    LEVEL,
    LINE,
    MARKERS,
    NAME,
    SHOWN,
    TONES,
    Key,
    axes_of,
    draw_levels,
    hue_of,
    name_axes,
    number_axis,
    text_of,
)
from steelyard.reporting.page import IntervalPlot, Stage, Tone, Track, WaterfallPlot

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_HATCHES = ("", "////", "....", "xxxx")
_WORDS = 42
"""Characters of a line next to an interval."""
_BAR = 0.56
"""Height of a bar of a waterfall, in rows."""
_NARROW, _MOST_UPRIGHT = 16, 6
"""Characters of a name below bars, and places whose names fit next to each other."""


def draw_intervals(figure: "Figure", plot: IntervalPlot) -> None:
    axis = interval_marks.axis_of(plot)
    axes = row_axes(figure, axis, plot.tracks, plot.title)
    axes.axvspan(1 - plot.margin, 1 + plot.margin, color=BAND, alpha=0.16, linewidth=0)
    axes.axvline(1, color=LEVEL, linewidth=1)
    for row, track in enumerate(plot.tracks):
        hue = TONES[Tone.BAD] if track.tone == Tone.BAD else hue_of(track.style)
        if track.low is not None and track.high is not None:
            ends = max(track.low, axis.low), min(track.high, axis.high)
            dashes = "-" if track.between_runs else (0, (3, 1.5))
            axes.plot(ends, (row, row), color=hue, linewidth=1.8, linestyle=dashes, solid_capstyle="butt")
        if track.value is not None:
            axes.plot([track.value], [row], "D", color=hue, markersize=5.5, clip_on=False)
        for mark in track.marks:
            marker = MARKERS[track.style % len(MARKERS)]
            axes.plot([mark.value], [row], marker, color=hue, markerfacecolor="none", markersize=4.5, alpha=0.9)


def draw_waterfall(figure: "Figure", plot: WaterfallPlot) -> None:
    """A bar per stage, from the product before it to the product with it."""
    axis = waterfall_marks.axis_of(plot)
    axes = row_axes(figure, axis, plot.stages, plot.unit)
    for row, stage in enumerate(plot.stages):
        hue = TONES[Tone.NOTE if stage.is_total else stage.tone]
        falls = "//" if stage.end < stage.start else ""
        width = stage.end - stage.start
        axes.barh(row, width, _BAR, stage.start, color=hue, alpha=0.55, hatch=falls, edgecolor="white")
        axes.plot([stage.end] * 2, [row - _BAR / 2, row + _BAR / 2], color=hue, linewidth=2)
        if row:
            joint = stage.end if stage.is_total else stage.start
            axes.plot([joint] * 2, [row - 1 + _BAR / 2, row - _BAR / 2], color=LEVEL, linewidth=0.7, linestyle=":")
        if stage.low is not None and stage.high is not None:
            ends = max(stage.low, axis.low), min(stage.high, axis.high)
            axes.plot(ends, (row, row), "|-", color="black", linewidth=1.1, markersize=5)


def row_axes(figure: "Figure", axis: interval_marks.Axis, rows: Sequence[Track | Stage], title: str) -> "Axes":
    """Axes with a row each: its label on the left, and on the right the figure above the words."""
    from matplotlib.ticker import FixedLocator, NullFormatter, NullLocator

    count, words = len(rows), list(map(_next_to, rows))
    axes = axes_of(figure, 0.55 + (0.7 + max(map(len, words))) * LINE * count)
    axes.set_xscale("log")
    axes.set_xlim(axis.low, axis.high)
    axes.set_ylim(count - 0.5, -0.5)
    place: Any = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points", "va": "center"}
    for row, lines in enumerate(words):
        axes.annotate("\n".join(lines), (1, row), (6, 0), fontsize=7.5, **place)
    axes.set_yticks(range(count), [text_of(row.label, NAME) for row in rows])
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    ticks = list(interval_marks.ticks(axis))
    axes.xaxis.set_major_locator(FixedLocator([value for value, _ in ticks]))
    axes.set_xticklabels([text for _, text in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel(text_of(title))
    return axes


def _next_to(row: Track | Stage) -> list[str]:
    """The lines next to a row: its figure, and what it means."""
    words = textwrap.wrap(text_of(row.words), _WORDS)
    return [*([text_of(row.figure, _WORDS)] if row.figure else []), *words]


def draw_bars(figure: "Figure", bars: Bars) -> None:
    """A group of bars per place, one bar per side; a word stands for a missing value."""
    axes = axes_of(figure, HEIGHT)
    key, count = Key(), len(bars.groups)
    width = 0.76 / count
    for at, group in enumerate(bars.groups):
        places = [place + (at - (count - 1) / 2) * width for place in range(len(bars.places))]
        hue = hue_of(group.style)
        handle = axes.bar(
            places,
            [bar.value or 0.0 for bar in group.bars],
            width * 0.92,
            color=hue,
            edgecolor="white",
            hatch=_HATCHES[group.style % len(_HATCHES)],
        )
        key.add(handle, group.label)
        for place, bar in zip(places, group.bars, strict=True):
            axes.plot([place] * len(bar.runs), bar.runs, "_", color="black", markersize=5, markeredgewidth=0.8)
            if bar.value is None:
                upright: Any = {"rotation": 90, "textcoords": "offset points", "ha": "center", "va": "bottom"}
                axes.annotate(text_of(bar.word, NAME), (place, 0), (0, 3), fontsize=7.5, color=hue, **upright)
    values = [value for group in bars.groups for bar in group.bars for value in (bar.value, *bar.runs) if value]
    top = max(values, default=1.0)
    shown = [level.value for level in bars.levels if level.value <= (1 + SHOWN) * top]
    view = (0.0, 1.06 * max([top, *shown]))
    draw_levels(axes, bars.levels, view, key)
    turned = 90 if len(bars.places) > _MOST_UPRIGHT else 0
    axes.set_xticks(
        range(len(bars.places)),
        ["\n".join(textwrap.wrap(text_of(place), NAME if turned else _NARROW)) for place in bars.places],
        rotation=turned,
    )
    room = max(0.6, 1.5 - len(bars.places) / 2)  # few bars are not wider than many
    axes.set_xlim(-room, len(bars.places) - 1 + room)
    axes.tick_params(axis="x", length=0)
    axes.grid(visible=False, axis="x")
    name_axes(axes, bars.title, bars.unit)
    number_axis(axes, "y", *view)
    key.below(figure)
