"""Nodes and hosts that are slower than the others."""

import statistics
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import reduce

import numpy as np

from steelyard.accounting.arrays import Floats, Whole

LEAST_FACTOR = 1.05
"""Nodes wait for each other at every step; smaller differences are timer noise."""
LEAST_SHARE = 0.8
"""Share of slower steps; a node with only a few slow steps had a stall."""
LEAST_STEPS = 10
LEAST_NODES = 4
"""With three, the MAD is the distance between the two that are closest, and the third always stands out."""
CLEARLY = 0.1
"""Share by which the speed of a clearly slow node is below the median: no noise of healthy hosts reaches it."""
CLEARLY_SIGMAS = 3.0


@dataclass(frozen=True, slots=True)
class Straggler:
    node: str
    median_s: float
    others_median_s: float
    steps: int
    share: float
    """Share of these steps that took longer than on the other nodes."""
    clearly: bool
    """Whether it is clearly slow among enough nodes."""

    @property
    def factor(self) -> float:
        return self.median_s / self.others_median_s

    def details(self) -> dict[str, float]:
        names = ("median_s", "others_median_s", "factor", "steps", "share")
        return {name: getattr(self, name) for name in names}

    def words(self) -> str:
        return (
            f"{self.node} takes {self.factor:.3g} times as long per step as the others: {self.median_s:.3g} s,"
            f" others {self.others_median_s:.3g} s (medians over {self.steps:,} steps)"
        )


def stragglers(times: Mapping[str, tuple[Whole, Floats]]) -> list[Straggler]:
    """The slow nodes, slowest first; `times` are the steps and step times of each node."""
    known = {node: _timed(steps, seconds) for node, (steps, seconds) in times.items()}
    if len(known) < 2:
        return []
    common = reduce(np.intersect1d, (steps for steps, _ in known.values()))
    if len(common) < LEAST_STEPS:
        return []
    rows = np.vstack([own[np.searchsorted(steps, common)] for steps, own in known.values()])
    medians = np.median(rows, axis=1)
    slow = []
    for at, node in enumerate(known):
        if medians[at] <= LEAST_FACTOR * float(_middle(np.delete(medians, at))):
            continue
        others = _middle(np.delete(rows, at, axis=0))
        share = float(np.mean(rows[at] > others))
        clearly = is_clearly_slow(1 / float(medians[at]), [1 / float(median) for median in medians])
        straggler = Straggler(node, float(medians[at]), float(np.median(others)), len(common), share, clearly)
        if share >= LEAST_SHARE and straggler.factor > LEAST_FACTOR:
            slow.append(straggler)
    return sorted(slow, key=lambda straggler: -straggler.factor)


def robust_z(value: float, values: Collection[float]) -> float | None:
    """Distance from the median in robust standard deviations; None if most values are the same.

    The modified z-score of Iglewicz and Hoaglin (How to Detect and Handle Outliers, 1993).
    """
    median = statistics.median(values)
    spread = statistics.median(abs(each - median) for each in values)
    return 0.6745 * (value - median) / spread if spread else None


def is_clearly_slow(speed: float, speeds: Collection[float]) -> bool:
    """Whether a speed is more than a tenth and three robust standard deviations below the median."""
    if len(speeds) < LEAST_NODES or speed >= (1 - CLEARLY) * statistics.median(speeds):
        return False
    z = robust_z(speed, speeds)
    return z is None or z < -CLEARLY_SIGMAS


def _middle(values: Floats) -> Floats:
    """The median over nodes, of two the slower: a single fast node must not make the others look slow."""
    middle: Floats = np.quantile(values, 0.5, axis=0, method="higher")
    return middle


def _timed(steps: Whole, seconds: Floats) -> tuple[Whole, Floats]:
    """Steps with a usable time, sorted, each once."""
    usable = np.isfinite(seconds) & (seconds > 0)
    numbers, first = np.unique(steps[usable], return_index=True)
    return numbers, seconds[usable][first]
