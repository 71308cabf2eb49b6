"""The power of a run's GPUs while it trained, by its telemetry."""

import math
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np

from steelyard.comparison import codes
from steelyard.reasons import Reason
from steelyard.records.columns import Floats
from steelyard.records.lines import whole_lines
from steelyard.records.writer import TELEMETRY
from steelyard.verdict import Subject

_LONGEST_GAP = 0.1
"""Of the steady stretch, its two ends included: so at least 80 % of it lies between samples, in ten pieces or more."""
_MOST_W = 1e5
"""No GPU draws as much."""

Samples = dict[tuple[str, str], list[tuple[float, float]]]
"""Moments and watts of each device, by its node and name."""


def watts(subject: Subject) -> float | Reason:
    """The mean power of all its GPUs together from the first to the last steady step, or why it is not known.

    Start-up is not training: a GPU that loads weights draws a tenth of what it will.
    """
    by_device = _samples(subject.run.directory / TELEMETRY)
    if not by_device:
        return Reason(codes.ENERGY_NO_TELEMETRY)
    steady = _steady(subject)
    if steady is None:
        return Reason(codes.ENERGY_STEPS_UNDATED)
    if len(by_device) != subject.world_size:
        return Reason(codes.ENERGY_OTHER_GPUS, {"devices": len(by_device), "gpus": subject.world_size})
    total = 0.0
    for (node, device), samples in sorted(by_device.items()):
        mean = _mean(np.array(samples), steady)
        if isinstance(mean, Reason):
            return replace(mean, values={**mean.values, "device": device, "node": node})
        total += mean
    return total


def _steady(subject: Subject) -> Floats | None:
    """When each steady record but the first began and ended, in seconds: a pause for a checkpoint is none of them."""
    rows = np.flatnonzero(subject.figures.window.mask)[1:]
    moments, seconds = subject.steps.time[rows], (subject.steps.step_time_s.values * subject.steps.steps_covered)[rows]
    if not len(rows) or np.isnat(moments).any() or not (seconds > 0).all() or not (np.diff(moments) > 0).all():
        return None
    ends = moments.astype("datetime64[us]").astype(np.int64) / 1e6
    begins = np.maximum(ends - seconds, np.append(ends[0] - seconds[0], ends[:-1]))
    return np.stack([begins, ends], axis=1)


def _mean(samples: Floats, steady: Floats) -> float | Reason:
    """Over the steady records, by straight lines between samples; or what is wrong, but for the device."""
    first, last = float(steady[0, 0]), float(steady[-1, 1])
    moments, power = samples[np.argsort(samples[:, 0], kind="stable")].T
    inside = (moments >= first) & (moments <= last)
    moments, power = moments[inside], power[inside]
    gap = float(np.diff(moments, prepend=first, append=last).max())
    if gap > _LONGEST_GAP * (last - first):
        return Reason(codes.ENERGY_GAP, {"gap": gap, "steady": last - first})
    if not ((power > 0) & (power < _MOST_W)).all():
        return Reason(codes.ENERGY_IMPLAUSIBLE, {"watts": float(power[~((power > 0) & (power < _MOST_W))][0])})
    joules = np.append(0.0, np.cumsum((power[1:] + power[:-1]) / 2 * np.diff(moments)))
    covered = np.clip(steady, moments[0], moments[-1])
    drawn = np.diff(np.interp(covered, moments, joules), axis=1).sum()
    return float(drawn / np.diff(covered, axis=1).sum())


def _samples(path: Path) -> Samples:
    found: Samples = {}
    for _, line in whole_lines(path):
        try:
            sample = _DECODER.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue  # a crash may cut a line short
        if sample.power_w is not None and math.isfinite(sample.power_w):
            found.setdefault((sample.node, sample.device), []).append((sample.time.timestamp(), sample.power_w))
    return found


class _Sample(msgspec.Struct):
    time: Annotated[datetime, msgspec.Meta(tz=True)]
    node: str
    device: str
    power_w: float | None = None


_DECODER = msgspec.json.Decoder(_Sample)
