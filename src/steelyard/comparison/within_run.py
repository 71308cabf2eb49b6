"""How sure one run is of its own rate: an interval from its correlated steps, which says nothing of another run."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from steelyard.verdict import Subject

LEVEL = 0.95
METHOD = "within each run: step times, AR(1) effective sample size"

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Spread:
    """How far a run's mean step time may be, as a share of it, from what it would be over a longer run."""

    standard_error: float
    effective_steps: float
    correlation: float
    """Lag-1 autocorrelation, corrected for its bias in short series."""


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
    return Spread(math.sqrt(variance / effective), effective, r)


def spread_of(subject: Subject) -> Spread | None:
    """Of the times a run's steady window was found on: its steps', or where it has none those its rates stand for."""
    times = subject.steps.step_time_s.values
    if not np.isfinite(times).any():
        with np.errstate(all="ignore"):
            times = 1 / subject.steps.reported_tokens_per_s_per_gpu.values
    return spread(times[subject.figures.window.mask])


def interval(value: float, target: Spread | None, baseline: Spread | None) -> tuple[float, float] | None:
    """Around a ratio of two rates, by Welch's t on its logarithm; None where a side has no spread."""
    if target is None or baseline is None:
        return None
    half = half_width([(side.standard_error**2, side.effective_steps - 1) for side in (target, baseline)])
    return value * math.exp(-half), value * math.exp(half)


def half_width(parts: Sequence[tuple[float, float]]) -> float:
    """Half the interval of a sum of parts with these variances and degrees of freedom, by Welch and Satterthwaite."""
    from scipy.special import stdtrit

    variance = sum(part for part, _ in parts)
    freedom = variance**2 / sum(part**2 / degrees for part, degrees in parts)
    return float(stdtrit(freedom, 0.5 + LEVEL / 2)) * math.sqrt(variance)
