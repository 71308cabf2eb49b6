"""Places of the marks of an interval plot, as shares of its width. The axis is logarithmic, since ratios multiply."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from steelyard.reporting.page import IntervalPlot, Mark, Track

_ROOM = 0.06
"""Room at each end, as a share of the axis."""
_FURTHEST = 8.0
"""How far an interval may stretch the axis beyond the outermost value; a wider one is cut at the edge."""
_TICKS = 5
_LONG = 4.0
"""An axis is long from this ratio of its ends."""
_NEAR = 1e-9


@dataclass(frozen=True, slots=True)
class DrawnTrack:
    """A row with its places; None for a missing value or an end beyond the axis."""

    track: Track
    value: str | None
    span: tuple[str, str] | None
    low: str | None
    high: str | None
    marks: list[tuple[str, Mark]]


@dataclass(frozen=True, slots=True)
class DrawnPlot:
    even: str
    """The place of 1."""
    margin: tuple[str, str]
    """Start and width of the margin."""
    ticks: list[tuple[str, str]]
    tracks: list[DrawnTrack]


@dataclass(frozen=True, slots=True)
class Axis:
    low: float
    high: float
    step: float | None
    """Between ticks; None on a long axis, which has them at 1, 2, 5, 10."""

    def share(self, value: float) -> float:
        """Percent of the width."""
        if not value > self.low:
            return 0.0
        return 100 * min(math.log(value / self.low) / math.log(self.high / self.low), 1.0)

    def at(self, value: float | None) -> str | None:
        return None if value is None or not self.low <= value <= self.high else percent(self.share(value))


def drawn(plot: IntervalPlot) -> DrawnPlot:
    axis = axis_of(plot)
    first, last = axis.share(1 - plot.margin), axis.share(1 + plot.margin)
    return DrawnPlot(
        even=percent(axis.share(1.0)),
        margin=(percent(first), percent(last - first)),
        ticks=[(percent(axis.share(value)), text) for value, text in ticks(axis)],
        tracks=[_track(track, axis) for track in plot.tracks],
    )


def _track(track: Track, axis: Axis) -> DrawnTrack:
    span = None
    if track.low is not None and track.high is not None:
        span = percent(axis.share(track.low)), percent(axis.share(track.high))
    marks = [(percent(axis.share(mark.value)), mark) for mark in track.marks]
    return DrawnTrack(track, axis.at(track.value), span, axis.at(track.low), axis.at(track.high), marks)


def axis_of(plot: IntervalPlot) -> Axis:
    figures = [1.0, 1 - plot.margin, 1 + plot.margin]
    for track in plot.tracks:
        figures += [mark.value for mark in track.marks] + ([track.value] if track.value is not None else [])
    return axis_over(figures, [end for track in plot.tracks for end in (track.low, track.high) if end is not None])


def axis_over(figures: Sequence[float], ends: Sequence[float]) -> Axis:
    """An axis with room for all figures, and for ends of intervals that are not too far."""
    low, high = min(figures), max(figures)
    low = max(min([low, *ends]), low / _FURTHEST)
    high = min(max([high, *ends]), high * _FURTHEST)
    room = (high / low) ** _ROOM
    low, high = low / room, high * room
    if high / low < _LONG:  # to the next ticks, so that every value is between two of them
        rough = (high - low) / _TICKS
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(times * power for times in (1, 2, 5, 10) if times * power >= rough)
        return Axis(math.floor(low / step) * step or low, math.ceil(high / step) * step, step)
    return Axis(low, high, None)


def ticks(axis: Axis) -> Iterator[tuple[float, str]]:
    """Round numbers: evenly spaced on a short axis, 1, 2, 5, 10 on a long one."""
    if (step := axis.step) is not None:
        digits = max(0, -math.floor(math.log10(step) + 1e-9))
        for count in range(math.ceil(axis.low / step - _NEAR), math.floor(axis.high / step + _NEAR) + 1):
            yield count * step, f"{count * step:.{digits}f}"
        return
    powers = range(math.floor(math.log10(axis.low)), math.ceil(math.log10(axis.high)) + 1)
    each = (1, 2, 5) if len(powers) <= 3 else (1,)
    inside = [value for power in powers for times in each if axis.low <= (value := times * 10.0**power) <= axis.high]
    for value in inside[:: -(-len(inside) // (2 * _TICKS))]:
        yield value, f"{value:g}"


def percent(share: float) -> str:
    return f"{share:.2f}%"
