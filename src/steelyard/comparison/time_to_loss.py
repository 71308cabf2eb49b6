"""Time to a loss: tokens to the loss divided by tokens/s, with energy and cost."""

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np

from steelyard.comparison import codes
from steelyard.comparison.intervals import Between, around, between, geometric_mean, spread_of, welch
from steelyard.comparison.side import Side
from steelyard.comparison.tiers import Pair
from steelyard.comparison.tiers.learning_speed import reached
from steelyard.configs.files import read_mapping
from steelyard.errors import InputError
from steelyard.hardware.catalog import known_names, lookup
from steelyard.reasons import Reason
from steelyard.records.columns import Floats
from steelyard.records.strict import whole_lines
from steelyard.records.writer import TELEMETRY
from steelyard.verdict import Subject

Prices = Mapping[str, float]
"""Price per hour of a GPU, by its name in the catalog."""
_PRICES = "{h100: 2.5, mi300x: 2.0}"
_LONGEST_GAP = 0.1
"""Longest gap between power samples, as a share of the steady window."""
_MOST_W = 1e5
"""More than any GPU draws."""


@dataclass(frozen=True, slots=True)
class SideToLoss:
    """What one side needs to reach the loss (geometric mean of its runs); None if unknown."""

    seconds: float
    energy_kwh: float | None
    """Energy of all GPUs, from telemetry."""
    energy_reason: Reason | None
    cost: float | None
    """In the currency of the price sheet."""
    cost_reason: Reason | None

    def document(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in self.__slots__}
        reasons = {"energy": self.energy_reason, "cost": self.cost_reason}
        texts = {f"{name}_reason": reason.message if reason else None for name, reason in reasons.items()}
        names = {f"{name}_code": reason.code.name if reason else None for name, reason in reasons.items()}
        return {**own, **texts, **names}


@dataclass(frozen=True, slots=True)
class TimeToLoss:
    """Target over baseline: below 1 the target reaches the loss first."""

    loss: float
    target: SideToLoss
    baseline: SideToLoss
    ratio: float
    low: float | None
    """None if the spread of a run's step times is unknown."""
    high: float | None
    interval: str

    def document(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in self.__slots__}
        return {**own, "target": self.target.document(), "baseline": self.baseline.document()}


def time_to_loss(pair: Pair, prices: Prices) -> TimeToLoss | Reason:
    """Time to the lowest loss that all runs reach, or why it is unknown."""
    common = reached(pair)
    if isinstance(common, Reason):
        return Reason(codes.NO_COMMON_LOSS, {"why": common.message})
    if pair.axis != "tokens":
        return Reason(codes.TOKENS_UNKNOWN)
    rates = [[rate for subject in side.subjects if (rate := _rate(subject)) is not None] for side in pair.sides]
    if any(len(known) < len(side.subjects) for known, side in zip(rates, pair.sides, strict=True)):
        return Reason(codes.RATE_MISSING)
    seconds = [
        [float(tokens[-1]) / rate for tokens, rate in zip(places, known, strict=True)]
        for places, known in zip(common.places, rates, strict=True)
    ]
    value = geometric_mean(seconds[0]) / geometric_mean(seconds[1])
    seeds = pair.over_seeds(seconds)
    bounds = seeds.ratio.interval() if seeds else _within(pair, value, common.at_the_last(), rates)
    target, baseline = (_side(side, times, prices) for side, times in zip(pair.sides, seconds, strict=True))
    low, high = bounds or (None, None)
    return TimeToLoss(float(common.losses[-1]), target, baseline, value, low, high, "runs" if seeds else "within_run")


def _rate(subject: Subject) -> float | None:
    """Tokens/s of all GPUs."""
    per_gpu, world = subject.figures.tokens_per_s_per_gpu.value, subject.world_size
    return per_gpu * world if per_gpu and world else None


def _within(pair: Pair, value: float, curves: Between, rates: Sequence[Sequence[float]]) -> tuple[float, float] | None:
    """The interval with fewer than three seeds, from the uncertainty of rates and of curves.

    The two half-widths are added as squares (Howe, JASA 69, 1974), so it is never narrower than that of the speedup.
    """
    of_rates = between(rates[0], rates[1])
    if of_rates is None:
        runs = [(spread_of(subject), len(side.subjects)) for side in pair.sides for subject in side.subjects]
        known = [(*spread, count) for spread, count in runs if spread is not None]
        if len(known) < len(runs):
            return None
        of_rates = welch(1.0, [((error / count) ** 2, steps - 1) for error, steps, count in known])
    return around(value, math.hypot(of_rates.half_width(), curves.half_width()))


def _side(side: Side, seconds: Sequence[float], prices: Prices) -> SideToLoss:
    runs = list(zip(side.subjects, seconds, strict=True))
    powers = [(_watts(subject), time) for subject, time in runs]
    energies = [watts if isinstance(watts, Reason) else watts * time / 3.6e6 for watts, time in powers]
    energy = _mean_of_runs(side, energies)
    cost: tuple[float | None, Reason | None] = (None, Reason(codes.COST_NO_PRICES))
    if prices:
        cost = _mean_of_runs(side, [_cost(subject, time, prices) for subject, time in runs])
    return SideToLoss(geometric_mean(seconds), *energy, *cost)


def _mean_of_runs(side: Side, figures: Sequence[float | Reason]) -> tuple[float | None, Reason | None]:
    """The geometric mean, or why the first missing figure is missing."""
    for subject, figure in zip(side.subjects, figures, strict=True):
        if isinstance(figure, Reason):
            run = subject.run.directory.resolve().name if len(figures) > 1 else None
            return None, replace(figure, values={**figure.values, "run": run})
    return geometric_mean([figure for figure in figures if not isinstance(figure, Reason)]), None


def _cost(subject: Subject, seconds: float, prices: Prices) -> float | Reason:
    if subject.gpu is None or lookup(subject.gpu.name) is None:
        name = "the CPU" if subject.on_cpu else subject.run.manifest.platform.gpu_name
        return Reason(codes.COST_GPU_NOT_IN_CATALOG, {"gpu": name}) if name else Reason(codes.COST_GPU_UNKNOWN)
    if subject.gpu.name not in prices:
        return Reason(codes.COST_NO_PRICE, {"gpu": subject.gpu.name})
    if subject.world_size is None:
        return Reason(codes.COST_GPU_COUNT_UNKNOWN)
    return seconds / 3600 * prices[subject.gpu.name] * subject.world_size


def _watts(subject: Subject) -> float | Reason:
    """Mean power of all GPUs in the steady window, or why it is unknown; outside it a GPU may draw a tenth."""
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
        mean = _mean_power(np.array(samples), steady)
        if isinstance(mean, Reason):
            return replace(mean, values={**mean.values, "device": device, "node": node})
        total += mean
    return total


def _steady(subject: Subject) -> Floats | None:
    """Begin and end of each steady record after the first, in seconds; pauses for checkpoints are left out."""
    rows = np.flatnonzero(subject.figures.window.mask)[1:]
    moments, seconds = subject.steps.time[rows], (subject.steps.step_time_s.values * subject.steps.steps_covered)[rows]
    if not len(rows) or np.isnat(moments).any() or not (seconds > 0).all() or not (np.diff(moments) > 0).all():
        return None
    ends = moments.astype("datetime64[us]").astype(np.int64) / 1e6
    begins = np.maximum(ends - seconds, np.append(ends[0] - seconds[0], ends[:-1]))
    return np.stack([begins, ends], axis=1)


def _mean_power(samples: Floats, steady: Floats) -> float | Reason:
    """Mean over the steady records, interpolated between samples; or what is wrong, without the device."""
    first, last = float(steady[0, 0]), float(steady[-1, 1])
    moments, power = samples[np.argsort(samples[:, 0], kind="stable")].T
    inside = (moments >= first) & (moments <= last)
    moments, power = moments[inside], power[inside]
    gap = float(np.diff(moments, prepend=first, append=last).max())
    if gap > _LONGEST_GAP * (last - first):
        return Reason(codes.ENERGY_GAP, {"gap": gap, "steady": last - first})
    if len(implausible := power[~((power > 0) & (power < _MOST_W))]):
        return Reason(codes.ENERGY_IMPLAUSIBLE, {"watts": float(implausible[0])})
    joules = np.append(0.0, np.cumsum((power[1:] + power[:-1]) / 2 * np.diff(moments)))
    covered = np.clip(steady, moments[0], moments[-1])
    drawn = np.diff(np.interp(covered, moments, joules), axis=1).sum()
    return float(drawn / np.diff(covered, axis=1).sum())


class _Sample(msgspec.Struct):
    time: Annotated[datetime, msgspec.Meta(tz=True)]
    node: str
    device: str
    power_w: float | None = None


_DECODER = msgspec.json.Decoder(_Sample)


def _samples(path: Path) -> dict[tuple[str, str], list[tuple[float, float]]]:
    """Timestamps and watts of each device, by node and name."""
    by_device: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for _, line in whole_lines(path):
        try:
            sample = _DECODER.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue  # a crash may cut a line short
        if sample.power_w is not None and math.isfinite(sample.power_w):
            by_device.setdefault((sample.node, sample.device), []).append((sample.time.timestamp(), sample.power_w))
    return by_device


def read_prices(path: Path) -> dict[str, float]:
    """Read a price sheet: a YAML or JSON file with prices per GPU hour by GPU name, in one currency."""
    content = read_mapping(path, "a price sheet", _PRICES, as_yaml=True).content
    if not content:
        raise InputError(f"{path}: is empty", value=str(path), expected="a price sheet", next=_PRICES)
    prices: dict[str, float] = {}
    for key, price in content.items():
        name = str(key)
        gpu = lookup(name)
        if gpu is None:
            near = difflib.get_close_matches(name, known_names(), n=1, cutoff=0.0)[0]
            problem, value = f"{key!r} is not in the GPU catalog", name
            expected, line = f"one of {', '.join(known_names())}", f"{near}: 2.5"
        elif isinstance(price, bool) or not isinstance(price, int | float) or not 0 < price < 1e6:
            problem, value = f"{key} is {price!r}", str(price)
            expected, line = "a price per GPU hour", f"{key}: 2.5"
        elif gpu.name in prices:
            problem, value = f"{key!r} is {gpu.name}, which already has a price", str(price)
            expected, line = "one price per GPU", f"{gpu.name}: {prices[gpu.name]:g}"
        else:
            prices[gpu.name] = float(price)
            continue
        raise InputError(f"{path}: {problem}", key=name, value=value, expected=expected, next=line)
    return prices
