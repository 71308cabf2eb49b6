"""Time to a loss: tokens to it over tokens a second. Speed and convergence in one figure, with energy and cost."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from steelyard.comparison.between_runs import Between, between, geometric_mean, quantile
from steelyard.comparison.power import watts
from steelyard.comparison.side import Side
from steelyard.comparison.tiers import Pair
from steelyard.comparison.tiers.learning_speed import reached
from steelyard.comparison.within_run import LEVEL, half_width, spread_of
from steelyard.reasons import Reason
from steelyard.verdict import Subject

Prices = Mapping[str, float]
"""A GPU's price an hour, by its name in the catalog."""


@dataclass(frozen=True, slots=True)
class SideToLoss:
    """What one side needs to reach the loss, as the geometric mean of its runs; None where it is not known."""

    seconds: float
    energy_kwh: float | None
    """Of all GPUs, by telemetry."""
    energy_reason: str | None
    """Why it is not known."""
    cost: float | None
    """In the price sheet's own currency."""
    cost_reason: str | None


@dataclass(frozen=True, slots=True)
class TimeToLoss:
    """Target over baseline: below 1 the target is there first."""

    loss: float
    target: SideToLoss
    baseline: SideToLoss
    ratio: float
    low: float | None
    """None where a run's step times do not tell how far they spread."""
    high: float | None
    interval: str
    """within_run, or runs."""


def time_to_loss(pair: Pair, prices: Prices) -> TimeToLoss | str:
    """To the lowest of the losses that all runs reach, or why it cannot be told."""
    found = reached(pair)
    if isinstance(found, Reason):
        return found.message
    if pair.curves[0][0].axis != "tokens":
        return "the tokens of a step are not known"
    known = [[_rate(subject) for subject in side.subjects] for side in (pair.target, pair.baseline)]
    rates = [[rate for rate in side if rate is not None] for side in known]
    if [len(side) for side in rates] != [len(side) for side in known]:
        return "not every run has a rate"
    seconds = [
        [float(tokens[-1]) / rate for tokens, rate in zip(side, own, strict=True)]
        for side, own in zip(found.places, rates, strict=True)
    ]
    value = geometric_mean(seconds[0]) / geometric_mean(seconds[1])
    seeds = pair.over_seeds(seconds)
    around = seeds.ratio.interval() if seeds else _within(pair, value, found.at_the_last(), rates)
    sides = [_side(side, times, prices) for side, times in zip((pair.target, pair.baseline), seconds, strict=True)]
    return TimeToLoss(
        loss=float(found.losses[-1]),
        target=sides[0],
        baseline=sides[1],
        ratio=value,
        low=around[0] if around else None,
        high=around[1] if around else None,
        interval="runs" if seeds else "within_run",
    )


def _rate(subject: Subject) -> float | None:
    """Tokens a second of all GPUs."""
    each, world = subject.figures.tokens_per_s_per_gpu.value, subject.world_size
    return each * world if each and world else None


def _within(pair: Pair, value: float, curves: Between, rates: Sequence[Sequence[float]]) -> tuple[float, float] | None:
    """Without three seeds: how sure the rates are, by whole runs where there are enough, and the curves by themselves.

    The two half-widths are added as squares (Howe, JASA 69, 1974), so that it is never narrower than the speedup's.
    """
    repeated = between(rates[0], rates[1])
    of_rates = _half(repeated) if repeated else _within_runs(pair)
    if of_rates is None:
        return None
    half = math.hypot(of_rates, _half(curves))
    return value * math.exp(-half), value * math.exp(half)


def _half(found: Between) -> float:
    return quantile(found.freedom, 0.5 + LEVEL / 2) * found.standard_error


def _within_runs(pair: Pair) -> float | None:
    parts = []
    for side in (pair.target, pair.baseline):
        for subject in side.subjects:
            own = spread_of(subject)
            if own is None:
                return None
            parts.append(((own.standard_error / len(side.subjects)) ** 2, own.effective_steps - 1))
    return half_width(parts)


def _side(side: Side, seconds: Sequence[float], prices: Prices) -> SideToLoss:
    runs = list(zip(side.subjects, seconds, strict=True))
    energy = _together(side, [_energy_kwh(subject, time) for subject, time in runs])
    cost: tuple[float | None, str | None] = (None, "no price sheet was given (--prices)")
    if prices:
        cost = _together(side, [_cost(subject, time, prices) for subject, time in runs])
    return SideToLoss(geometric_mean(seconds), *energy, *cost)


def _together(side: Side, found: Sequence[float | str]) -> tuple[float | None, str | None]:
    """The runs' mean, or why the first of those that have no figure has none."""
    for subject, one in zip(side.subjects, found, strict=True):
        if isinstance(one, str):
            return None, one if len(found) == 1 else f"{one} ({subject.run.directory.resolve().name})"
    return geometric_mean([one for one in found if not isinstance(one, str)]), None


def _energy_kwh(subject: Subject, seconds: float) -> float | str:
    power = watts(subject)
    return power if isinstance(power, str) else power * seconds / 3.6e6


def _cost(subject: Subject, seconds: float, prices: Prices) -> float | str:
    if subject.gpu is None:
        name = "the CPU" if subject.on_cpu else subject.run.manifest.platform.gpu_name
        return f"{name} is not in the catalog of GPUs, which prices go by" if name else "its GPU is not known"
    if subject.gpu.name not in prices:
        return f"the price sheet has no {subject.gpu.name}"
    if subject.world_size is None:
        return "how many GPUs it ran on is not known"
    return seconds / 3600 * prices[subject.gpu.name] * subject.world_size
