"""Where the marks of an interval plot lie: shares of its width, on one logarithmic axis, since ratios multiply."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from steelyard.reporting.page import IntervalPlot, Mark, Track

_ROOM = 0.06
"""Of the axis, beyond what is drawn on it."""
_FURTHEST = 8.0
"""Times beyond the outermost figure an interval may stretch the axis; what is wider leaves it at its edge."""
_TICKS = 5


@dataclass(frozen=True, slots=True)
class DrawnTrack:
    """A row with its places; None where there is nothing, or where an end lies beyond the axis."""

    track: Track
    value: str | None
    span: tuple[str, str] | None
    low: str | None
    high: str | None
    marks: list[tuple[str, Mark]]


@dataclass(frozen=True, slots=True)
class DrawnPlot:
    even: str
    """Where 1 lies."""
    margin: tuple[str, str]
    """Where the margin begins, and how wide it is."""
    ticks: list[tuple[str, str]]
    tracks: list[DrawnTrack]


@dataclass(frozen=True, slots=True)
class _Axis:
    low: float
    high: float

    def share(self, value: float) -> float:
        """Of the width, in percent."""
        if not value > self.low:
            return 0.0
        return 100 * min(math.log(value / self.low) / math.log(self.high / self.low), 1.0)

    def at(self, value: float | None) -> str | None:
        return None if value is None or not self.low <= value <= self.high else _percent(self.share(value))


def drawn(plot: IntervalPlot) -> DrawnPlot:
    axis = _axis(plot)
    first, last = axis.share(1 - plot.margin), axis.share(1 + plot.margin)
    return DrawnPlot(
        even=_percent(axis.share(1.0)),
        margin=(_percent(first), _percent(last - first)),
        ticks=[(_percent(axis.share(value)), text) for value, text in _ticks(axis)],
        tracks=[_track(track, axis) for track in plot.tracks],
    )


def _track(track: Track, axis: _Axis) -> DrawnTrack:
    span = None
    if track.low is not None and track.high is not None:
        span = _percent(axis.share(track.low)), _percent(axis.share(track.high))
    marks = [(_percent(axis.share(mark.value)), mark) for mark in track.marks]
    return DrawnTrack(track, axis.at(track.value), span, axis.at(track.low), axis.at(track.high), marks)


def _axis(plot: IntervalPlot) -> _Axis:
    figures = [1.0, 1 - plot.margin, 1 + plot.margin]
    for track in plot.tracks:
        figures += [mark.value for mark in track.marks] + ([track.value] if track.value is not None else [])
    low, high = min(figures), max(figures)
    ends = [end for track in plot.tracks for end in (track.low, track.high) if end is not None]
    low = max(min([low, *ends]), low / _FURTHEST)
    high = min(max([high, *ends]), high * _FURTHEST)
    room = (high / low) ** _ROOM
    return _Axis(low / room, high * room)


def _ticks(axis: _Axis) -> Iterator[tuple[float, str]]:
    """Round numbers a person would write on the axis: evenly apart on a short one, 1, 2, 5, 10 on a long one."""
    if axis.high / axis.low < 4:
        rough = (axis.high - axis.low) / _TICKS
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(times * power for times in (1, 2, 5, 10) if times * power >= rough)
        digits = max(0, -math.floor(math.log10(step) + 1e-9))
        for count in range(math.ceil(axis.low / step), math.floor(axis.high / step) + 1):
            yield count * step, f"{count * step:.{digits}f}"
        return
    powers = range(math.floor(math.log10(axis.low)), math.ceil(math.log10(axis.high)) + 1)
    each = (1, 2, 5) if len(powers) <= 3 else (1,)
    inside = [value for power in powers for times in each if axis.low <= (value := times * 10.0**power) <= axis.high]
    for value in inside[:: -(-len(inside) // (2 * _TICKS))]:
        yield value, f"{value:g}"


def _percent(share: float) -> str:
    return f"{share:.2f}%"
