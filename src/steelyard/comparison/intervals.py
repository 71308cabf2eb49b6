"""How sure the runs are of a ratio, each by its own steps or several by their spread, and the outcome of that."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from steelyard.records.columns import Floats
from steelyard.verdict import Subject

LEVEL = 0.95
MARGIN = 0.05
"""What is too little to matter in practice, unless the comparison says otherwise."""
FEWEST = 3
"""Runs a side, below which an interval between runs is not made."""
SAME = 1e-9
"""Figures that differ by less than this share of themselves are one: sums of the same steps end in other digits."""
WITHIN_RUN = "within each run: step times, AR(1) effective sample size"
BETWEEN_RUNS = "between runs: Welch's t on the logarithms of the runs' figures"
_TOST_LEVEL = 0.90
"""Two one-sided tests at 5 % are this interval inside the margins."""
MOST_RUNS = 100


@dataclass(frozen=True, slots=True)
class Between:
    """A ratio of geometric means, by the spread of whole runs."""

    value: float
    standard_error: float
    """Of the ratio's logarithm."""
    freedom: float
    """Welch's degrees of freedom; infinite where the error is taken as known."""

    def half_width(self, level: float = LEVEL) -> float:
        return quantile(self.freedom, 0.5 + level / 2) * self.standard_error

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        return around(self.value, self.half_width(level))

    def above(self, bound: float) -> float:
        """How likely so high a ratio is, should it be no higher than the bound: the p-value of one side."""
        return tail(self.freedom, (math.log(self.value) - math.log(bound)) / self.standard_error)

    def below(self, bound: float) -> float:
        """The same of so low a ratio, should it be no lower."""
        return tail(self.freedom, (math.log(bound) - math.log(self.value)) / self.standard_error)

    def equivalent(self, margin: float = MARGIN) -> bool:
        """By two one-sided tests at 5 %: the 90 % interval lies inside the margins."""
        low, high = self.interval(_TOST_LEVEL)
        return 1 - margin <= low and high <= 1 + margin


def around(value: float, half: float) -> tuple[float, float]:
    """An interval around a ratio, from half that of its logarithm."""
    return value * math.exp(-half), value * math.exp(half)


def welch(value: float, parts: Sequence[tuple[float, float]]) -> Between:
    """By the variances and degrees of freedom of the parts of the ratio's logarithm (Welch and Satterthwaite)."""
    variance = sum(part for part, _ in parts)
    shares = sum(part**2 / degrees for part, degrees in parts)
    return Between(value, math.sqrt(variance), variance**2 / shares if shares else math.inf)


def between(target: Sequence[float], baseline: Sequence[float], counted: bool = False) -> Between | None:
    """Target over baseline; None where a side has too few runs, or equal ones, unless they are counted as bytes are."""
    if min(len(target), len(baseline)) < FEWEST or not (counted or (vary(target) and vary(baseline))):
        return None
    logs = [np.log(np.asarray(side, dtype=np.float64)) for side in (target, baseline)]
    parts = [(float(side.var(ddof=1)) / len(side), len(side) - 1) for side in logs]
    return welch(math.exp(logs[0].mean() - logs[1].mean()), parts)


def geometric_mean(values: Sequence[float] | Floats) -> float:
    """Geometric, since what is compared is a ratio."""
    return float(np.exp(np.mean(np.log(np.asarray(values, dtype=np.float64)))))


def paired(figures: Sequence[tuple[float, float]]) -> Between:
    """Target over baseline where each figure has its own counterpart: Student's t on the differences of logarithms."""
    apart = np.array([math.log(target) - math.log(baseline) for target, baseline in figures])
    error = float(apart.std(ddof=1)) / math.sqrt(len(apart))
    return Between(math.exp(float(apart.mean())), error, len(apart) - 1)


def vary(figures: Sequence[float] | Floats) -> bool:
    """Whether runs have any spread to judge another by; rounded figures and copies have none."""
    return bool(np.ptp(figures) > SAME * np.max(np.abs(figures)))


def quantile(freedom: float, share: float) -> float:
    """Student's t, or the normal's where the degrees of freedom are without end."""
    from scipy.special import ndtri, stdtrit

    return float(ndtri(share) if math.isinf(freedom) else stdtrit(freedom, share))


def tail(freedom: float, at: float) -> float:
    """The share of Student's t beyond `at`."""
    from scipy.special import ndtr, stdtr

    return float(ndtr(-at) if math.isinf(freedom) else stdtr(freedom, -at))


class Spread(NamedTuple):
    """How far a run's mean step time may be, as a share of it, from what it would be over a longer run."""

    standard_error: float
    effective_steps: float


def spread(step_times: Floats) -> Spread | None:
    """Relative standard error of the mean step time under AR(1); None where times do not vary, are too few or unknown.

    With lag-1 correlation r, n steps are worth n (1 - r) / (1 + r) independent ones (Bayley and Hammersley, Supplement
    to JRSS 8, 1946, for AR(1)). The sample's r is too small by about (1 + 4 r) / n (Kendall, Biometrika 41, 1954),
    which is added back; a negative r is taken for none, so that it never narrows the interval. The figure is a ratio
    of sums, so the error is that of the mean time and not of the mean log time, which a few slow steps hardly move.
    """
    n = len(step_times)
    if n < 3 or not np.isfinite(step_times).all() or np.ptp(step_times) == 0:
        return None
    x = step_times / step_times.mean() - 1
    variance = float((x**2).sum()) / (n - 1)
    r = float((x[1:] * x[:-1]).sum() / (x**2).sum())
    r = min(max(r + (1 + 4 * r) / n, 0.0), 1 - 2 / n)
    effective = max(n * (1 - r) / (1 + r), 2.0)
    return Spread(math.sqrt(variance / effective), effective)


def spread_of(subject: Subject) -> Spread | None:
    """Of the times a run's steady window was found on: its steps', or where it has none those its rates stand for."""
    times = subject.steps.step_time_s.values
    if not np.isfinite(times).any():
        with np.errstate(all="ignore"):
            times = 1 / subject.steps.reported_tokens_per_s_per_gpu.values
    return spread(times[subject.figures.window.mask])


def within_runs(value: float, target: Spread | None, baseline: Spread | None) -> tuple[float, float] | None:
    """The interval of a ratio of two rates by their own steps, which says nothing of another run."""
    if target is None or baseline is None:
        return None
    return welch(value, [(error**2, steps - 1) for error, steps in (target, baseline)]).interval()


class Outcome(StrEnum):
    BETTER = "better"
    """All of the interval is above the margin."""
    MARGINALLY_BETTER = "marginally_better"
    """All of it is above 1, and some of it within the margin."""
    EQUIVALENT = "equivalent"
    MARGINALLY_WORSE = "marginally_worse"
    WORSE = "worse"
    INCONCLUSIVE = "inconclusive"
    SINGLE_RUN = "single_run"
    TOO_FEW_RUNS = "too_few_runs"
    """Several runs, and on a side fewer than an interval between runs takes."""
    NO_SPREAD = "no_spread"
    """Runs enough, of which those of a side are equal."""
    UNSETTLED = "unsettled"

    @property
    def above(self) -> bool:
        return self in (Outcome.BETTER, Outcome.MARGINALLY_BETTER)

    @property
    def below(self) -> bool:
        return self in (Outcome.WORSE, Outcome.MARGINALLY_WORSE)

    @property
    def decided(self) -> bool:
        """Whether it rests on an interval between runs, and is not open."""
        return self.above or self.below or self == Outcome.EQUIVALENT


@dataclass(frozen=True, slots=True)
class Words:
    """How a ratio above 1 and one below it are said."""

    above: str
    below: str

    def of(self, outcome: Outcome, margin: float) -> str:
        if outcome == Outcome.EQUIVALENT:
            return f"equivalent within {margin:.3g}"
        if not outcome.decided:
            return outcome.value
        word = self.above if outcome.above else self.below
        return word if outcome in (Outcome.BETTER, Outcome.WORSE) else f"{word}, maybe by less than {margin:.3g}"


def outcome_of(ratio: Between, margin: float = MARGIN) -> Outcome:
    """All of the 95 % interval beyond the margin, equivalent, beyond 1 and across the margin, or inconclusive."""
    low, high = ratio.interval()
    if low > 1 + margin:
        return Outcome.BETTER
    if high < 1 - margin:
        return Outcome.WORSE
    if ratio.equivalent(margin):
        return Outcome.EQUIVALENT
    if low > 1:
        return Outcome.MARGINALLY_BETTER
    return Outcome.MARGINALLY_WORSE if high < 1 else Outcome.INCONCLUSIVE


def more_runs(ratio: Between, runs: int, margin: float = MARGIN) -> int | None:
    """About how many runs a side are missing to show that it is not 1, or equivalent; None where 100 do not help."""
    at, spread = math.log(ratio.value), ratio.standard_error * math.sqrt(runs)
    goals = [(abs(at), LEVEL)]
    if 1 - margin < ratio.value < 1 + margin:
        goals.append((min(math.log1p(margin) - at, at - math.log1p(-margin)), _TOST_LEVEL))
    for count in range(runs + 1, MOST_RUNS + 1):
        freedom, root = 2 * (count - 1), math.sqrt(count)
        if any(quantile(freedom, 0.5 + level / 2) * spread / root < room for room, level in goals):
            return count - runs
    return None
