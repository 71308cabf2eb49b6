"""Draws a chart: curves over steps or time, with levels, bands, spreads, zones and dots."""

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from steelyard.reporting.figures.common import (
    BAND,
    HEIGHT,
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
from steelyard.reporting.page import Chart, Line, Tone

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_DASHES: tuple[Any, ...] = ("-", (0, (5, 1.6)), (0, (1, 1.2)), (0, (5, 1.4, 1, 1.4)))
_ROOM = 0.06
_MARKED = 60
"""With fewer points than this, each has a mark."""
_MANY = 3
"""From this many runs on, a side is one entry of the legend."""


def draw_chart(figure: "Figure", chart: Chart) -> None:
    axes = axes_of(figure, HEIGHT)
    low, high = _range(chart)
    key = Key()
    for band in chart.bands:
        hue, alpha = (BAND, 0.13) if band.style is None else (hue_of(band.style), 0.08)
        patch = axes.axvspan(band.first, band.last, color=hue, alpha=alpha, linewidth=0)
        key.add(patch, f"{band.label} {band.first:,} to {band.last:,}")
    for zone in chart.zones:
        bottom, top = low if zone.low is None else zone.low, high if zone.high is None else zone.high
        key.add(axes.axhspan(bottom, top, color=TONES[Tone.GOOD], alpha=0.12, linewidth=0), zone.label)
    for spread in chart.spreads:
        hue = hue_of(spread.style)
        reach = axes.fill_between(spread.x, spread.low, spread.high, color=hue, alpha=0.2, linewidth=0)
        key.add(reach, spread.label)
    for label, handle in _curves(axes, chart.lines):
        key.add(handle, label)
    _broken(axes, chart.lines, key)
    _dots(axes, chart, key)
    draw_levels(axes, chart.levels, (low, high), key)
    name_axes(axes, chart.title, chart.unit)
    number_axis(axes, "y", low, high)
    axes.set_xlabel(text_of(chart.x_name))
    if chart.x_names:
        axes.set_xticks(
            range(1, len(chart.x_names) + 1), [text_of(name, NAME) for name in chart.x_names], rotation=30, ha="right"
        )
    else:
        axes.margins(x=0.01)
        number_axis(axes, "x", *axes.get_xlim())
    key.notes += [*chart.notes, *_clipped(chart, low, high)]
    key.below(figure)


def _curves(axes: "Axes", lines: Sequence[Line]) -> Iterator[tuple[str, Any]]:
    """Draw the curves; the label and the handle of each, or of each side with many runs."""
    several = len({line.style for line in lines}) < len(lines)
    for style in dict.fromkeys(line.style for line in lines):
        own = [line for line in lines if line.style == style]
        handles = [_curve(axes, line, several) for line in own]
        if len(own) < _MANY:
            yield from ((line.label, handle) for line, handle in zip(own, handles, strict=True))
        else:
            yield f"{own[0].label.split('/')[0]}: {len(own)} runs", handles[0]


def _curve(axes: "Axes", line: Line, several: bool) -> Any:
    values = [math.nan if value is None else value for value in line.y]
    marked = len(values) <= _MARKED and not several
    (handle,) = axes.plot(
        line.x,
        values,
        color=hue_of(line.style),
        linestyle=_DASHES[line.style % len(_DASHES)],
        linewidth=0.9 if several else 1.3,
        alpha=(1.0, 0.75, 0.55)[line.shade % 3] if several else 1.0,
        marker=MARKERS[line.style % len(MARKERS)] if marked else None,
        markersize=2.6,
    )
    return handle


def _broken(axes: "Axes", lines: Sequence[Line], key: Key) -> None:
    """A red mark at the top of the plot where values begin to be not finite."""
    from matplotlib.transforms import blended_transform_factory

    place = blended_transform_factory(axes.transData, axes.transAxes)
    for line in lines:
        if line.broken:
            firsts = [first for first, _ in line.broken]
            (handle,) = axes.plot(
                firsts, [0.97] * len(firsts), "v", color=TONES[Tone.BAD], markersize=6, transform=place, clip_on=False
            )
            key.add(handle, f"{line.label}: not finite at {firsts[0]:,}{' and later' * (len(firsts) > 1)}")


def _dots(axes: "Axes", chart: Chart, key: Key) -> None:
    kinds: dict[str, Any] = {}
    for dot in chart.dots:
        hue = TONES[dot.tone]
        (handle,) = axes.plot(
            [dot.x], [dot.y], "o", color=hue, markerfacecolor="white" if dot.hollow else hue, markersize=5
        )
        if dot.named:
            axes.annotate(
                text_of(dot.short or dot.name, NAME), (dot.x, dot.y), (6, 4), textcoords="offset points", fontsize=8
            )
        if dot.kind:
            kinds.setdefault(dot.kind, handle)
    for kind, handle in kinds.items():
        key.add(handle, kind)


def _is_clipped(chart: Chart, x: int) -> bool:
    return chart.settled is not None and x < chart.settled


def _values(chart: Chart, with_warm_up: bool) -> list[float]:
    of_lines = (pair for line in chart.lines for pair in zip(line.x, line.y, strict=True))
    values = [y for x, y in of_lines if y is not None and (with_warm_up or not _is_clipped(chart, x))]
    return values + [dot.y for dot in chart.dots]


def _range(chart: Chart) -> tuple[float, float]:
    """Of the values without the warm-up of a time axis, with levels and zones that do not squeeze the curves."""
    values = _values(chart, with_warm_up=False) or _values(chart, with_warm_up=True) or [0.0, 1.0]
    low, high = min(values), max(values)
    spread = high - low or abs(high) * 0.1 or 1.0
    bounds = [end for zone in chart.zones for end in (zone.low, zone.high) if end is not None]
    near = [
        value
        for value in (*(level.value for level in chart.levels), *bounds)
        if low - SHOWN * spread <= value <= high + SHOWN * spread
    ]
    low, high = min([low, *near]), max([high, *near])
    if high == low:  # a flat curve is in the middle
        return low - spread / 2, high + spread / 2
    room = _ROOM * (high - low)
    return (min(low, 0.0) if low >= 0 and low - room < 0 else low - room), high + room


def _clipped(chart: Chart, low: float, high: float) -> Iterator[str]:
    """The warm-up that leaves the plot."""
    values = _values(chart, with_warm_up=True)
    if chart.settled is None or not values:
        return
    if max(values) > high:
        yield f"\N{UPWARDS ARROW} warm-up: up to {max(values):,.5g}"
    elif min(values) < low:
        yield f"\N{DOWNWARDS ARROW} warm-up: down to {min(values):,.5g}"
