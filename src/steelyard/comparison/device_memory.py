"""One measure of memory for both sides: the peak of each GPU by telemetry, which no framework's own count affects."""

import math
from collections import defaultdict
from dataclasses import replace
from datetime import datetime
from typing import Annotated

import msgspec
import numpy as np

from steelyard.comparison.side import Side
from steelyard.records.strict import whole_lines
from steelyard.records.writer import TELEMETRY
from steelyard.verdict import Subject

KIND = "device_by_telemetry"
_FEWEST = 3
"""Samples of each GPU during training: the first may be from before the weights are allocated."""


class _Sample(msgspec.Struct):
    time: Annotated[datetime, msgspec.Meta(tz=True)]
    node: str
    device: str
    memory_used_gib: float | None = None


_DECODER = msgspec.json.Decoder(_Sample)


def on_one_measure(sides: tuple[Side, Side]) -> tuple[Side, Side]:
    """The sides with device memory, if telemetry of every run covers exactly its GPUs; else as they are."""
    peaks = [[peak_gib(subject) for subject in side.subjects] for side in sides]
    if any(peak is None for side in peaks for peak in side):
        return sides
    target, baseline = (
        replace(
            side,
            subjects=tuple(
                replace(subject, memory_gib=(peak, KIND)) if peak is not None else subject
                for subject, peak in zip(side.subjects, own, strict=True)
            ),
        )
        for side, own in zip(sides, peaks, strict=True)
    )
    return target, baseline


def peak_gib(subject: Subject) -> float | None:
    """The highest memory in use on any GPU during training; None if telemetry does not cover the run's GPUs."""
    if subject.on_cpu or subject.world_size is None:
        return None
    times = subject.steps.time[~np.isnat(subject.steps.time)]
    moments = times.astype("datetime64[us]").astype(np.int64) / 1e6
    first, last = (float(moments.min()), float(moments.max())) if len(moments) else (-math.inf, math.inf)
    most: dict[tuple[str, str], float] = {}
    counts: dict[tuple[str, str], int] = defaultdict(int)
    for _, line in whole_lines(subject.run.directory / TELEMETRY):
        try:
            sample = _DECODER.decode(line)
            moment = sample.time.timestamp()
        except (msgspec.DecodeError, UnicodeDecodeError, OverflowError, ValueError):
            continue  # a crash may cut a line short
        used, device = sample.memory_used_gib, (sample.node, sample.device)
        if used is not None and 0 < used < math.inf and first <= moment <= last:
            most[device] = max(used, most.get(device, 0.0))
            counts[device] += 1
    if len(most) != subject.world_size or min(counts.values(), default=0) < _FEWEST:
        return None
    return max(most.values())
