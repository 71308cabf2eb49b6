"""Power, temperature, clock and utilization of the GPUs over time, read from telemetry.jsonl in bounded memory."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np

from steelyard.records.strict import whole_lines
from steelyard.records.writer import TELEMETRY
from steelyard.reporting.page import Band, Chart, Line, Spread, Table
from steelyard.reporting.thinning import covered
from steelyard.verdict import Subject
from steelyard.verdict.gpu_telemetry import DECODER

METRICS = (
    ("power_w", "Power", "W per GPU"),
    ("temperature_c", "Temperature", "\N{DEGREE SIGN}C"),
    ("clock_mhz", "Clock", "MHz"),
    ("utilization_percent", "Utilization", "%"),
)
FIRST_STEP, FIRST_SAMPLE = "s since the first step", "s since the first sample"
_MAX_BINS = 2000
_SAMPLES = 12

_Run = tuple[str, Subject, int, int]
"""Label, run, side and shade."""


@dataclass
class _Bins:
    """Count, sum, lowest and highest by time; the bins get wider so that there are never too many."""

    width: int = 1
    bins: dict[int, list[float]] = field(default_factory=dict)

    def add(self, second: int, value: float) -> None:
        self._merge(second // self.width, [1.0, value, value, value])
        if len(self.bins) > _MAX_BINS:
            narrow, self.bins, self.width = self.bins, {}, self.width * 2
            for place, content in narrow.items():
                self._merge(place // 2, content)

    def _merge(self, place: int, new: list[float]) -> None:
        old = self.bins.get(place)
        if old is not None:
            new = [old[0] + new[0], old[1] + new[1], min(old[2], new[2]), max(old[3], new[3])]
        self.bins[place] = new

    def rows(self) -> list[tuple[int, float, float, float]]:
        """Second, mean, lowest, highest."""
        return [
            (place * self.width, total / count, low, high)
            for place, (count, total, low, high) in sorted(self.bins.items())
        ]


@dataclass
class _Telemetry:
    metrics: dict[str, _Bins]
    devices: set[tuple[str, str]]
    first: int | None = None


def _read(subject: Subject) -> _Telemetry:
    telemetry = _Telemetry({name: _Bins() for name, *_ in METRICS}, set())
    for _, line in whole_lines(subject.run.directory / TELEMETRY):
        try:
            sample = DECODER.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue  # a crash may cut a line short
        try:
            second = int(sample.time.timestamp())
        except (OverflowError, ValueError):
            continue
        if telemetry.first is None:
            telemetry.first = second
        if len(telemetry.devices) < _MAX_BINS:
            telemetry.devices.add((sample.node, sample.device))
        for name, bins in telemetry.metrics.items():
            value = getattr(sample, name)
            if value is not None and math.isfinite(value):
                bins.add(second, value)
    return telemetry


def _training(subject: Subject) -> tuple[int, int, int] | None:
    """Seconds since 1970 at which the first step began, the warm-up ended and the last step ended."""
    steps, window = subject.steps, subject.figures.window
    dated = np.flatnonzero(~np.isnat(steps.time))
    if not len(dated):
        return None
    moments = steps.time.astype("datetime64[us]").astype(np.int64) / 1e6
    duration = float(steps.step_time_s.values[dated[0]] * steps.steps_covered[dated[0]])
    first = float(moments[dated[0]]) - (duration if math.isfinite(duration) else 0.0)
    steady = np.flatnonzero(window.mask & ~np.isnat(steps.time))
    settled = float(moments[steady[0]]) if len(steady) else first
    return int(first), int(settled), int(moments[dated[-1]])


def _bands(ends: Sequence[tuple[int, int]], names: Sequence[str]) -> list[Band]:
    """From the first step to the last, for each side if one trains longer; `ends` are sides and seconds."""
    longest = {side: max(end for own, end in ends if own == side) for side, _ in ends}
    if len(set(longest.values())) > 1:
        return [Band(f"{names[side]} training", 0, end, side) for side, end in longest.items()]
    alike = len({end for _, end in ends}) == 1
    return [Band("training" if alike else "training of the longest run", 0, end) for end in set(longest.values())]


def telemetry_charts(runs: Sequence[_Run], names: Sequence[str]) -> list[Chart]:
    """A chart per metric that at least one run recorded: the mean of all devices, and their range for a single run.

    `names` are those of the sides.
    """
    read = [(label, _read(subject), subject, side, shade) for label, subject, side, shade in runs]
    read = [entry for entry in read if entry[1].first is not None]
    times = [_training(subject) for _, _, subject, _, _ in read]
    dated = bool(times) and all(times)
    zeros = [
        own[0] if dated and own else telemetry.first or 0 for (_, telemetry, *_), own in zip(read, times, strict=True)
    ]
    settled = max((own[1] - own[0] for own in times if own), default=0) if dated else None
    ends = [(side, own[2] - own[0]) for (*_, side, _), own in zip(read, times, strict=True) if own]
    bands = _bands(ends, names) if dated else []
    charts = []
    for name, title, unit in METRICS:
        lines, spreads, rows = [], [], []
        for (label, telemetry, _, side, shade), zero in zip(read, zeros, strict=True):
            if not (values := telemetry.metrics[name].rows()):
                continue
            seconds = [row[0] - zero for row in values]
            lines.append(Line(label, seconds, [_digits(row[1]) for row in values], style=side, shade=shade))
            rows.append((label, [row[1] for row in values], seconds))
            if len(read) == 1 and len(telemetry.devices) > 1:
                low, high = ([_digits(row[at]) for row in values] for at in (2, 3))
                spreads.append(Spread(f"range of {len(telemetry.devices)} devices", seconds, low, high, side))
        if lines:
            charts.append(_chart(title, unit, lines, spreads, rows, bands, settled, dated))
    return charts


def _chart(
    title: str,
    unit: str,
    lines: Sequence[Line],
    spreads: Sequence[Spread],
    rows: Sequence[tuple[str, Sequence[float], Sequence[int]]],
    bands: Sequence[Band],
    settled: int | None,
    dated: bool,
) -> Chart:
    summary = " ".join(
        f"{label}: mean {np.mean(values):.4g} {unit}, lowest {min(values):.4g}, highest {max(values):.4g}."
        for label, values, _ in rows
    )
    table = [
        [label, f"{seconds[at]:,}", f"{values[at]:.4g}"]
        for label, values, seconds in rows
        for at in np.linspace(0, len(values) - 1, min(_SAMPLES, len(values))).astype(int)
    ]
    x_name = FIRST_STEP if dated else FIRST_SAMPLE
    return Chart(
        title=title,
        unit=unit,
        summary=summary,
        samples=Table(f"{title} in numbers", ["run", x_name, unit], table, folded=True),
        lines=lines,
        spreads=spreads,
        bands=bands,
        x_name=x_name,
        settled=settled,
        minor=True,
        notes=covered(lines),
    )


def _digits(value: float) -> float:
    return float(f"{value:.6g}")
