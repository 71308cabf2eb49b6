"""Time to a loss: tokens to it over tokens a second. Speed and convergence in one figure, with energy and cost."""

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from steelyard.comparison import codes
from steelyard.comparison.between_runs import Between, between, geometric_mean, quantile
from steelyard.comparison.power import watts
from steelyard.comparison.side import Side
from steelyard.comparison.tiers import Pair
from steelyard.comparison.tiers.learning_speed import reached
from steelyard.comparison.within_run import LEVEL, half_width, spread_of
from steelyard.configs.files import read_mapping
from steelyard.errors import InputError
from steelyard.hardware.catalog import known_names, lookup
from steelyard.reasons import Reason
from steelyard.verdict import Subject

Prices = Mapping[str, float]
"""A GPU's price an hour, by its name in the catalog."""
_PRICES = "{h100: 2.5, mi300x: 2.0}"


@dataclass(frozen=True, slots=True)
class SideToLoss:
    """What one side needs to reach the loss, as the geometric mean of its runs; None where it is not known."""

    seconds: float
    energy_kwh: float | None
    """Of all GPUs, by telemetry."""
    energy_reason: Reason | None
    """Why it is not known."""
    cost: float | None
    """In the price sheet's own currency."""
    cost_reason: Reason | None

    def document(self) -> dict[str, Any]:
        return {
            "seconds": self.seconds,
            "energy_kwh": self.energy_kwh,
            "energy_reason": self.energy_reason.message if self.energy_reason else None,
            "cost": self.cost,
            "cost_reason": self.cost_reason.message if self.cost_reason else None,
            "energy_code": self.energy_reason.code.name if self.energy_reason else None,
            "cost_code": self.cost_reason.code.name if self.cost_reason else None,
        }


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

    def document(self) -> dict[str, Any]:
        """The time to a loss in JSON."""
        return {
            "loss": self.loss,
            "target": self.target.document(),
            "baseline": self.baseline.document(),
            "ratio": self.ratio,
            "low": self.low,
            "high": self.high,
            "interval": self.interval,
        }


def time_to_loss(pair: Pair, prices: Prices) -> TimeToLoss | Reason:
    """To the lowest of the losses that all runs reach, or why it cannot be told."""
    found = reached(pair)
    if isinstance(found, Reason):
        return Reason(codes.NO_COMMON_LOSS, {"why": found.message})
    if pair.curves[0][0].axis != "tokens":
        return Reason(codes.TOKENS_UNKNOWN)
    known = [[_rate(subject) for subject in side.subjects] for side in (pair.target, pair.baseline)]
    rates = [[rate for rate in side if rate is not None] for side in known]
    if [len(side) for side in rates] != [len(side) for side in known]:
        return Reason(codes.RATE_MISSING)
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
    cost: tuple[float | None, Reason | None] = (None, Reason(codes.COST_NO_PRICES))
    if prices:
        cost = _together(side, [_cost(subject, time, prices) for subject, time in runs])
    return SideToLoss(geometric_mean(seconds), *energy, *cost)


def _together(side: Side, figures: Sequence[float | Reason]) -> tuple[float | None, Reason | None]:
    """The runs' mean, or why the first of those that have no figure has none."""
    for subject, figure in zip(side.subjects, figures, strict=True):
        if isinstance(figure, Reason):
            run = subject.run.directory.resolve().name if len(figures) > 1 else None
            return None, replace(figure, values={**figure.values, "run": run})
    return geometric_mean([figure for figure in figures if not isinstance(figure, Reason)]), None


def _energy_kwh(subject: Subject, seconds: float) -> float | Reason:
    power = watts(subject)
    return power if isinstance(power, Reason) else power * seconds / 3.6e6


def _cost(subject: Subject, seconds: float, prices: Prices) -> float | Reason:
    if subject.gpu is None:
        name = "the CPU" if subject.on_cpu else subject.run.manifest.platform.gpu_name
        return Reason(codes.COST_GPU_NOT_IN_CATALOG, {"gpu": name}) if name else Reason(codes.COST_GPU_UNKNOWN)
    if subject.gpu.name not in prices:
        return Reason(codes.COST_NO_PRICE, {"gpu": subject.gpu.name})
    if subject.world_size is None:
        return Reason(codes.COST_GPU_COUNT_UNKNOWN)
    return seconds / 3600 * prices[subject.gpu.name] * subject.world_size


def read_prices(path: Path) -> dict[str, float]:
    """A price sheet: a YAML or JSON file of what a GPU costs an hour, by its name, in any one currency."""
    prices: dict[str, float] = {}
    content = read_mapping(path, "a price sheet", _PRICES, as_yaml=True).content
    if not content:
        raise InputError(f"{path}: is empty", value=str(path), expected="a price sheet", next=_PRICES)
    for name, price in content.items():
        gpu = lookup(str(name))
        if gpu is None:
            raise InputError(
                f"{path}: {name!r} is not in the catalog of GPUs",
                key=str(name),
                value=str(name),
                expected=f"one of {', '.join(known_names())}",
                next=f"{next(iter(difflib.get_close_matches(str(name), known_names(), n=1, cutoff=0.0)))}: 2.5",
            )
        if isinstance(price, bool) or not isinstance(price, int | float) or not 0 < price < 1e6:
            raise InputError(
                f"{path}: {name} is {price!r}",
                key=str(name),
                value=str(price),
                expected="a price an hour of one GPU",
                next=f"{name}: 2.5",
            )
        if gpu.name in prices:
            raise InputError(
                f"{path}: {name!r} is the {gpu.name}, which has a price already",
                key=str(name),
                value=str(price),
                expected="one price a GPU",
                next=f"{gpu.name}: {prices[gpu.name]:g}",
            )
        prices[gpu.name] = float(price)
    return prices
