"""Confidence intervals of a ratio, from steps or from repeats, and the outcome that follows."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from steelyard.records.columns import Floats
from steelyard.verdict import Subject

LEVEL = 0.95
MARGIN = 0.05
"""Smallest difference that matters, by default."""
FEWEST = 3
"""Fewest runs per side for an interval between runs."""
SAME = 1e-9
"""Figures that differ by a smaller share are equal: sums of the same steps differ in their last digits."""
WITHIN_RUN = "within each run: step times, AR(1) effective sample size"
BETWEEN_RUNS = "between runs: Welch's t on the logarithms of the runs' figures"
IN_BLOCKS = "between runs in turns: Student's t on the logarithms of the runs' figures, within blocks of time"
ERROR = 1 - LEVEL
"""Chance of a wrong claim of one kind over all looks at growing sets of runs."""
_FIRST_SHARE = 0.8
"""Share of the remaining error that a look spends: 4%, 0.8%, 0.16% …, 5% in total (alpha spending)."""
_POWER = 0.8
"""Chance that the advised number of further runs decides."""
_FEWEST_FREE = 2
"""Degrees of freedom of an interval within blocks; one would make it too wide to decide."""
MOST_RUNS = 100


@dataclass(frozen=True, slots=True)
class Between:
    """A ratio of geometric means with its standard error."""

    value: float
    standard_error: float
    """Of the ratio's logarithm."""
    freedom: float
    """Welch's degrees of freedom; infinite if the error is exact."""
    drift: float = 0.0
    """What the ratio's logarithm would still change by until step times have settled; intervals cover both ends."""

    def half_width(self, level: float = LEVEL) -> float:
        return quantile(self.freedom, 0.5 + level / 2) * self.standard_error

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        low, high = around(self.value, self.half_width(level))
        return low * math.exp(min(self.drift, 0.0)), high * math.exp(max(self.drift, 0.0))

    def above(self, bound: float) -> float:
        """One-sided p-value of a ratio this high, if the true ratio is at most the bound."""
        return self._tail(math.log(self.value) + min(self.drift, 0.0) - math.log(bound))

    def below(self, bound: float) -> float:
        """One-sided p-value of a ratio this low, if the true ratio is at least the bound."""
        return self._tail(math.log(bound) - math.log(self.value) - max(self.drift, 0.0))

    def _tail(self, distance: float) -> float:
        """P-value of a distance beyond a bound; figures without any spread, such as bytes, decide alone."""
        if not self.standard_error:
            return 0.0 if distance > 0 else 1.0
        return tail(self.freedom, distance / self.standard_error)

    def equivalent(self, margin: float = MARGIN, error: float = ERROR) -> bool:
        """By two one-sided tests: at 5% each, the 90% interval lies inside the margins."""
        low, high = self.interval(1 - 2 * error)
        return 1 - margin <= low and high <= 1 + margin


def around(value: float, half: float) -> tuple[float, float]:
    """An interval around a ratio, from the half-width of its logarithm."""
    return value * math.exp(-half), value * math.exp(half)


def welch(value: float, parts: Sequence[tuple[float, float]]) -> Between:
    """From variances and degrees of freedom of the parts of the ratio's logarithm (Welch and Satterthwaite)."""
    variance = sum(part for part, _ in parts)
    shares = sum(part**2 / degrees for part, degrees in parts)
    return Between(value, math.sqrt(variance), variance**2 / shares if shares else math.inf)


def between(target: Sequence[float], baseline: Sequence[float], counted: bool = False) -> Between | None:
    """Target over baseline; None if a side has too few runs, or equal figures that are not `counted` as bytes are."""
    if min(len(target), len(baseline)) < FEWEST or not (counted or (vary(target) and vary(baseline))):
        return None
    logs = [np.log(np.asarray(side, dtype=np.float64)) for side in (target, baseline)]
    parts = [(float(side.var(ddof=1)) / len(side), len(side) - 1) for side in logs]
    ratio, counts = welch(math.exp(logs[0].mean() - logs[1].mean()), parts), sorted(map(len, logs))
    # With unequal counts Welch's interval is too narrow: simulated, 3 against 20 runs cover 92.5%, and so 94.6%.
    freedom = max(ratio.freedom - math.log2(counts[1] / counts[0]), counts[0] - 1.0)
    return replace(ratio, freedom=freedom)


Block = tuple[Sequence[float], Sequence[float]]
"""Figures of the target and of the baseline from one block of time."""


def within_blocks(blocks: Sequence[Block]) -> Between | None:
    """Target over baseline from differences within blocks, which share what changes with time; None if too few.

    Least squares on logarithms with a level per block and one difference between the sides. With one run per side in
    each block it is the paired t test.
    """
    logs = [[np.log(np.asarray(side, dtype=np.float64)) for side in block] for block in blocks]
    freedom = sum(len(side) for block in logs for side in block) - len(logs) - 1
    if freedom < _FEWEST_FREE:
        return None
    weights = np.array([len(target) * len(baseline) / (len(target) + len(baseline)) for target, baseline in logs])
    apart = np.array([target.mean() - baseline.mean() for target, baseline in logs])
    log, weight = float((weights * apart).sum() / weights.sum()), float(weights.sum())
    inside = sum(float(side.var()) * len(side) for block in logs for side in block)
    squares = inside + float((weights * (apart - log) ** 2).sum())
    return Between(math.exp(log), math.sqrt(squares / freedom / weight), freedom)


def geometric_mean(values: Sequence[float] | Floats) -> float:
    """Geometric, because a ratio is compared."""
    return float(np.exp(np.mean(np.log(np.asarray(values, dtype=np.float64)))))


def paired(figures: Sequence[tuple[float, float]]) -> Between:
    """Target over baseline of paired figures: Student's t on the differences of logarithms."""
    ratio = within_blocks([((target,), (baseline,)) for target, baseline in figures])
    assert ratio is not None  # three pairs have two degrees of freedom
    return ratio


def vary(figures: Sequence[float] | Floats) -> bool:
    """Whether figures have any spread; rounded figures and copies have none."""
    return bool(np.ptp(figures) > SAME * np.max(np.abs(figures)))


def quantile(freedom: float, share: float) -> float:
    """Quantile of Student's t; of the normal distribution for infinite degrees of freedom."""
    from scipy.special import ndtri, stdtrit

    return float(ndtri(share) if math.isinf(freedom) else stdtrit(freedom, share))


def tail(freedom: float, at: float) -> float:
    """Upper tail of Student's t beyond `at`."""
    from scipy.special import ndtr, stdtr

    return float(ndtr(-at) if math.isinf(freedom) else stdtr(freedom, -at))


class Spread(NamedTuple):
    """Relative standard error of a run's mean step time."""

    standard_error: float
    effective_steps: float


def spread(step_times: Floats) -> Spread | None:
    """Standard error of the mean step time under AR(1); None if times do not vary, are too few or unknown.

    With lag-1 correlation r, n steps are worth n (1 - r) / (1 + r) independent ones (Bayley and Hammersley, Supplement
    to JRSS 8, 1946, for AR(1)). The sample's r is too small by about (1 + 4 r) / n (Kendall, Biometrika 41, 1954),
    which is added back; a negative r counts as 0, so it never narrows the interval. The figure is a ratio of sums,
    so the error is that of the mean time; the mean log time would hide a few slow steps.
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
    """Spread of the step times in the steady window, or of 1 / rate without step times."""
    times = subject.steps.step_time_s.values
    if not np.isfinite(times).any():
        with np.errstate(all="ignore"):
            times = 1 / subject.steps.reported_tokens_per_s_per_gpu.values
    return spread(times[subject.figures.window.mask])


def within_runs(value: float, target: Spread | None, baseline: Spread | None) -> tuple[float, float] | None:
    """The interval of a ratio of two rates from their own steps; another run may lie outside it."""
    if target is None or baseline is None:
        return None
    return welch(value, [(error**2, steps - 1) for error, steps in (target, baseline)]).interval()


class Outcome(StrEnum):
    BETTER = "better"
    """All of the interval is above the margin."""
    MARGINALLY_BETTER = "marginally_better"
    """All of it is above 1, part of it within the margin."""
    EQUIVALENT = "equivalent"
    MARGINALLY_WORSE = "marginally_worse"
    WORSE = "worse"
    INCONCLUSIVE = "inconclusive"
    SINGLE_RUN = "single_run"
    TOO_FEW_RUNS = "too_few_runs"
    """Several runs, but too few on a side for an interval between runs."""
    NO_SPREAD = "no_spread"
    """Enough runs, but those of a side have equal figures."""
    UNSETTLED = "unsettled"

    @property
    def above(self) -> bool:
        return self in (Outcome.BETTER, Outcome.MARGINALLY_BETTER)

    @property
    def below(self) -> bool:
        return self in (Outcome.WORSE, Outcome.MARGINALLY_WORSE)

    @property
    def decided(self) -> bool:
        """Whether an interval between runs gives an answer."""
        return self.above or self.below or self == Outcome.EQUIVALENT


@dataclass(frozen=True, slots=True)
class Words:
    """The words for a ratio above 1 and below 1."""

    above: str
    below: str

    def of(self, outcome: Outcome, margin: float) -> str:
        if outcome == Outcome.EQUIVALENT:
            return f"equivalent within {100 * margin:.3g}%"
        if not outcome.decided:
            return outcome.value
        word = self.above if outcome.above else self.below
        return word if outcome in (Outcome.BETTER, Outcome.WORSE) else f"{word}, maybe by less than {100 * margin:.3g}%"


def error_at(look: int) -> float:
    """The error that a look at a growing set of runs may spend: 4% the first time, 0.8% the second."""
    return ERROR * _FIRST_SHARE * (1 - _FIRST_SHARE) ** (look - 1)


def interval_at(ratio: Between, look: int) -> tuple[float, float]:
    """The 95% interval; after earlier looks one that covers with 95% at all looks together."""
    return ratio.interval() if look == 1 else ratio.interval(1 - error_at(look))


def outcome_of(ratio: Between, margin: float = MARGIN, look: int = 1) -> Outcome:
    """The outcome by the interval, the test of equivalence and the margin, with the error of this look."""
    error = error_at(look)
    low, high = ratio.interval(1 - error)
    if low > 1 + margin:
        return Outcome.BETTER
    if high < 1 - margin:
        return Outcome.WORSE
    if ratio.equivalent(margin, error):
        return Outcome.EQUIVALENT
    if low > 1:
        return Outcome.MARGINALLY_BETTER
    return Outcome.MARGINALLY_WORSE if high < 1 else Outcome.INCONCLUSIVE


def more_runs(ratio: Between, runs: int, margin: float = MARGIN, look: int = 1) -> int | None:
    """How many more runs per side decide at the next look with a chance of 80%; None if 100 runs would not."""
    at, spread, error = math.log(ratio.value), ratio.standard_error * math.sqrt(runs), error_at(look + 1)
    goals = [(abs(at), error / 2)]
    if 1 - margin < ratio.value < 1 + margin:
        goals.append((min(math.log1p(margin) - at, at - math.log1p(-margin)), error))
    for count in range(runs + 1, MOST_RUNS + 1):
        freedom, root = 2 * (count - 1), math.sqrt(count)
        power = quantile(freedom, _POWER)
        if any((quantile(freedom, 1 - tail_error) + power) * spread / root < room for room, tail_error in goals):
            return count - runs
    return None
