"""Time to a loss: tokens to it over tokens a second. Speed and convergence in one figure, with energy and cost."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from steelyard.compare.between_runs import FEWEST, Between, between
from steelyard.compare.ratios import geometric_mean
from steelyard.compare.side import Side
from steelyard.compare.tiers import Pair
from steelyard.compare.tiers.learning_speed import Reached, reached
from steelyard.compare.within_run import spread
from steelyard.records.writer import TELEMETRY
from steelyard.verdict import Subject

Prices = Mapping[str, float]
"""A GPU's price an hour, by its name in the catalog."""


@dataclass(frozen=True, slots=True)
class SideToLoss:
    """What one side needs to reach the loss; None where it is not known."""

    seconds: float
    energy_kwh: float | None
    """Of all GPUs, by telemetry."""
    cost: float | None
    """In the price sheet's own currency."""


@dataclass(frozen=True, slots=True)
class TimeToLoss:
    """Target over baseline: below 1 the target is there first."""

    loss: float
    target: SideToLoss
    baseline: SideToLoss
    ratio: float
    low: float
    high: float
    interval: str
    """within_run, or runs."""


def time_to_loss(pair: Pair, prices: Prices) -> TimeToLoss | str:
    """To the lowest of the losses that all runs reach, or why it cannot be told."""
    found = reached(pair)
    if isinstance(found, str):
        return found
    if pair.curves[0][0].axis != "tokens":
        return "the tokens of a step are not known"
    rates = [[_rate(subject) for subject in side.subjects] for side in (pair.target, pair.baseline)]
    if any(rate is None for side in rates for rate in side):
        return "not every run has a rate"
    seconds = [
        [float(tokens[-1]) / (rate or math.nan) for tokens, rate in zip(side, own, strict=True)]
        for side, own in zip(found.places, rates, strict=True)
    ]
    ratio = between(seconds[0], seconds[1]) or _within(pair, found, seconds)
    low, high = ratio.interval()
    sides = [_side(side, times, prices) for side, times in zip((pair.target, pair.baseline), seconds, strict=True)]
    return TimeToLoss(
        loss=float(found.losses[-1]),
        target=sides[0],
        baseline=sides[1],
        ratio=ratio.value,
        low=low,
        high=high,
        interval="runs" if min(map(len, seconds)) >= FEWEST else "within_run",
    )


def _rate(subject: Subject) -> float | None:
    """Tokens a second of all GPUs."""
    each, world = subject.figures.tokens_per_s_per_gpu.value, subject.world_size
    return each * world if each and world else None


def _within(pair: Pair, found: Reached, seconds: Sequence[Sequence[float]]) -> Between:
    """Without repeats: how sure each run is of its own rate, and its own curve of where it comes down."""
    parts = [found.by_chance().standard_error ** 2]
    for side in (pair.target, pair.baseline):
        for subject in side.subjects:
            own = spread(subject.steps.step_time_s.values[subject.figures.window.mask])
            parts.append((own.standard_error if own else 0.0) ** 2 / len(side.subjects) ** 2)
    means = [geometric_mean(side) for side in seconds]
    return Between(means[0] / means[1], math.sqrt(sum(parts)), math.inf)


def _side(side: Side, seconds: Sequence[float], prices: Prices) -> SideToLoss:
    mean = geometric_mean(seconds)
    watts = [_watts(subject.run.directory) for subject in side.subjects]
    known = [one for one in watts if one is not None]
    energy = float(np.mean(known)) * mean / 3.6e6 if len(known) == len(watts) else None
    subject = side.subjects[0]
    price = prices.get(subject.gpu.name) if subject.gpu else None
    cost = mean / 3600 * price * subject.world_size if price is not None and subject.world_size else None
    return SideToLoss(mean, energy, cost)


def _watts(run: Path) -> float | None:
    """The mean power of all GPUs together; None where telemetry does not give it."""
    path = run / TELEMETRY
    sums: dict[tuple[str, str], list[float]] = {}
    for line in path.read_bytes().splitlines() if path.exists() else ():
        try:
            sample = msgspec.json.decode(line, type=_Sample)
        except msgspec.DecodeError:
            continue  # a crash may cut a line short
        if sample.power_w is not None:
            sums.setdefault((sample.node, sample.device), []).append(sample.power_w)
    return sum(float(np.mean(values)) for values in sums.values()) if sums else None


class _Sample(msgspec.Struct):
    node: str
    device: str
    power_w: float | None = None
