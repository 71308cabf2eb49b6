"""What telemetry shows of a run's GPUs during training: peak memory, power cap, clock and driver."""

import math
from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np

from steelyard.records import StepTable
from steelyard.records.strict import whole_lines
from steelyard.records.writer import TELEMETRY

_FIGURES = ("memory_used_gib", "power_limit_w", "clock_mhz")
_DRIVERS = 2
"""Different drivers that are kept: more than one has no name."""
_FEWEST = 3
"""Samples of each GPU during training: the first may be from before the weights are allocated."""


@dataclass(frozen=True, slots=True)
class GpuTelemetry:
    """Figures of exactly the GPUs of a run; None where no sample has them."""

    memory_gib: float | None
    """The highest memory in use on any GPU."""
    power_cap_w: float | None
    clock_mhz: float | None
    """Means over all samples, like the power cap."""
    driver: str | None


class Sample(msgspec.Struct):
    """One line of telemetry.jsonl: a GPU at one time."""

    time: Annotated[datetime, msgspec.Meta(tz=True)]
    node: str
    device: str
    memory_used_gib: float | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    temperature_c: float | None = None
    clock_mhz: float | None = None
    utilization_percent: float | None = None
    driver: str | None = None


DECODER = msgspec.json.Decoder(Sample)


def gpu_telemetry(directory: Path, steps: StepTable, gpus: int) -> GpuTelemetry | None:
    """None if the samples during training are few, or do not cover exactly this number of GPUs."""
    times = steps.time[~np.isnat(steps.time)]
    moments = times.astype("datetime64[us]").astype(np.int64) / 1e6
    first, last = (float(moments.min()), float(moments.max())) if len(moments) else (-math.inf, math.inf)
    counts: Counter[tuple[str, str]] = Counter()
    sums: defaultdict[str, float] = defaultdict(float)
    samples, drivers = Counter[str](), set[str]()
    peak = 0.0
    for _, line in whole_lines(directory / TELEMETRY):
        try:
            sample = DECODER.decode(line)
            moment = sample.time.timestamp()
        except (msgspec.DecodeError, UnicodeDecodeError, OverflowError, ValueError):
            continue  # a crash may cut a line short
        if not first <= moment <= last:
            continue
        counts[sample.node, sample.device] += 1
        if len(counts) > gpus:
            return None
        if sample.driver:
            drivers = {*drivers, sample.driver} if len(drivers) < _DRIVERS else drivers
        for name in _FIGURES:
            figure = getattr(sample, name)
            if figure is not None and 0 < figure < math.inf:
                sums[name] += figure
                samples[name] += 1
        peak = max(peak, sample.memory_used_gib or 0.0)
    if len(counts) != gpus or min(counts.values(), default=0) < _FEWEST:
        return None
    means = {name: sums[name] / samples[name] for name in samples}
    return GpuTelemetry(
        memory_gib=peak if samples["memory_used_gib"] == counts.total() else None,
        power_cap_w=means.get("power_limit_w"),
        clock_mhz=means.get("clock_mhz"),
        driver=drivers.pop() if len(drivers) == 1 else None,
    )
