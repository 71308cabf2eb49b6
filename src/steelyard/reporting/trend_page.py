"""The report of a metric over the runs of one experiment."""

import contextlib
import shlex
import statistics
from collections.abc import Sequence

from steelyard.campaign.trend import Point, Trend
from steelyard.errors import InputError
from steelyard.experiment.thresholds import Direction, Threshold, parse_threshold
from steelyard.records import load
from steelyard.records.fleet import load_fleet
from steelyard.reporting.curves import number
from steelyard.reporting.fleet_page import SHOWN, shown
from steelyard.reporting.page import Cell, Chart, Dot, Level, Line, Page, Plots, Table, Tone, Zone
from steelyard.reporting.sides import subject_line
from steelyard.verdict import Subject, read_subject

_TONES = {"pass": Tone.GOOD, "fail": Tone.BAD, "unknown": Tone.UNSURE}
_SHARE = 0.05
"""Width of the band around the median where the experiment has no threshold."""


def counted(trend: Trend) -> list[Point]:
    """Runs of the latest run's job that have a value and did not fail."""
    return [point for point in trend.alike() if not _failed(point)]


def _failed(point: Point) -> bool:
    """A failed run; the value of a fleet is the median of its completed runs and counts."""
    return point.verdict == "fail" and point.spread is None


def sentence(trend: Trend, subjects: Sequence[Subject] = ()) -> str:
    """First, last and range of the runs that count; `subjects` are on the devices that the unit names."""
    values = [point.value for point in counted(trend) if point.value is not None]
    failed = sum(map(_failed, trend.alike()))
    apart = len(trend.points) - len(trend.alike())
    left = [f"{failed} failed"] * bool(failed) + [f"{apart} with other settings or without a value"] * bool(apart)
    others = f" Not counted: {', '.join(left)}." if left else ""
    if not values:
        return f"No run that counts has a {trend.metric}.{others}"
    change = f" ({values[-1] / values[0] - 1:+.2%})" if len(values) > 1 and values[0] else ""
    return (
        f"{_name(trend, subjects)} of {len(values)} run{'s' * (len(values) != 1)}: first {number(values[0], 4)}, last "
        f"{number(values[-1], 4)}{change}; lowest {number(min(values), 4)}, highest {number(max(values), 4)}.{others} "
        "A trend has no CI and is not a comparison."
    )


def _name(trend: Trend, subjects: Sequence[Subject]) -> str:
    name, unit = shown(trend.metric, subjects)
    return f"{name} ({unit})" if unit else name


def _latest(trend: Trend) -> list[Subject]:
    """The latest run of its job; of a fleet its first run."""
    for point in reversed(trend.alike() or trend.points):
        with contextlib.suppress(InputError):
            if point.spread is None:
                return [read_subject(load(point.run))]
            return [read_subject(run) for run in load_fleet(point.run).runs() if run is not None][:1]
    return []


def _period(trend: Trend) -> str:
    """From the first day to the last."""
    days = sorted(point.started[:10] for point in trend.points)
    return " to ".join(dict.fromkeys((days[0], days[-1]))) if days else ""


def trend_page(trend: Trend, words: Sequence[str]) -> Page:
    """`words` is the command that made it."""
    count, counting = len(trend.points), len(counted(trend))
    of_all, subjects = f"{counting} of " if counting < count else "", _latest(trend)
    return Page(
        kind="trend",
        title=f"{SHOWN[trend.metric][0]} over runs of {trend.experiment}",
        subject=subject_line(subjects, _period(trend)),
        verdict=f"{of_all}{count} run{'s' * (count != 1)}",
        tone=Tone.NOTE,
        sentence=sentence(trend, subjects),
        blocks=[*_plots(trend, subjects), _table(trend, subjects)],
        commands=[shlex.join(words)],
    )


def _plots(trend: Trend, subjects: Sequence[Subject]) -> list[Plots]:
    known = [(at, point) for at, point in enumerate(trend.points, start=1) if point.value is not None]
    if len(known) < 2:
        return []
    inside, (name, unit) = counted(trend), shown(trend.metric, subjects)
    line = [(at, point.value) for at, point in known if point in inside]
    dates = _dates(trend.points)
    dots = [
        Dot(
            at,
            point.value or 0.0,
            f"{point.run.name}, {dates[at - 1]}",
            _tone(point),
            point not in inside,
            _kind(point),
        )
        for at, point in known
    ]
    table = Table(f"{name} in numbers", ["date", "run", unit or name], [
        [dates[at - 1], point.run.name, number(point.value or 0.0)] for at, point in known
    ], folded=True)  # fmt: skip
    values = [value for _, value in line if value is not None]
    chart = Chart(
        name,
        unit,
        sentence(trend, subjects),
        table,
        lines=[Line(trend.experiment, [at for at, _ in line], [value for _, value in line])] if len(line) > 1 else (),
        levels=[Level("median", statistics.median(values))] if values else (),
        zones=_zones(trend, values),
        dots=dots,
        x_name="date of the run",
        x_names=dates,
    )
    return [Plots("Plot", [chart])]


def _tone(point: Point) -> Tone:
    if point.differs:
        return Tone.PLAIN
    return Tone.BAD if _failed(point) else Tone.NOTE


def _kind(point: Point) -> str:
    if point.differs:
        return "other settings"
    return "failed run" if _failed(point) else "run that counts"


def _dates(points: Sequence[Point]) -> list[str]:
    """The day of each run, and the time where several ran on one day."""
    days = [point.started[:10] for point in points]
    if len(set(days)) == len(days):
        return days
    return [point.started[:16].replace("T", " ") for point in points]


def _zones(trend: Trend, values: Sequence[float]) -> list[Zone]:
    """The threshold of the latest run that has one, or a band around the median."""
    for point in reversed(trend.alike()):
        for threshold in _thresholds(point):
            if threshold.metric == trend.metric:
                return [_zone(threshold)]
    if not values:
        return []
    median = statistics.median(values)
    return [Zone(f"within {_SHARE:.0%} of the median", median * (1 - _SHARE), median * (1 + _SHARE))]


def _thresholds(point: Point) -> list[Threshold]:
    with contextlib.suppress(InputError, ValueError, TypeError):
        return [parse_threshold(text) for text in load(point.run).manifest.experiment.thresholds or ()]
    return []


def _zone(threshold: Threshold) -> Zone:
    value = threshold.value
    match threshold.direction:
        case Direction.AT_LEAST:
            return Zone(f"threshold: at least {number(value)}", value, None)
        case Direction.AT_MOST:
            return Zone(f"threshold: at most {number(value)}", None, value)
    half = value * (threshold.tolerance_percent or 0.0) / 100
    return Zone(f"threshold: {number(value - half)} to {number(value + half)}", value - half, value + half)


def _table(trend: Trend, subjects: Sequence[Subject]) -> Table:
    rows: list[list[str | Cell]] = []
    for at, point in enumerate(trend.points, start=1):
        word = point.verdict or "not judged"
        value = point.reason or "unknown" if point.value is None else number(point.value)
        judged = Cell(word, _TONES.get(word, Tone.PLAIN))
        if point.spread is not None:
            value = f"{value} ({point.spread.words})"
        started = point.started[:19].replace("T", " ")
        rows.append([str(at), started, point.run.name, point.platform, judged, value, point.differs_in])
    columns = [
        "number",
        "started",
        "run",
        "platform",
        "verdict",
        _name(trend, subjects),
        "settings unlike the latest run",
    ]
    return Table("Runs", columns, rows)
