"""Which nodes of one job are slower than the others, by the steps all of them report."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

import numpy as np

from steelyard.accounting.arrays import Floats, Whole

LEAST_FACTOR = 1.05
"""Nodes of one job wait for each other at every step: what is nearer together than this is the clock's."""
LEAST_SHARE = 0.8
"""Of the steps: a node with a few bad ones had a stall, and is no slow node."""
LEAST_STEPS = 10


@dataclass(frozen=True, slots=True)
class Straggler:
    node: str
    median_s: float
    others_median_s: float
    steps: int
    share: float
    """Of these steps, how many took longer than the others'."""

    @property
    def factor(self) -> float:
        return self.median_s / self.others_median_s

    def details(self) -> dict[str, float]:
        names = ("median_s", "others_median_s", "factor", "steps", "share")
        return {name: getattr(self, name) for name in names}

    def words(self) -> str:
        return (
            f"{self.node} is slower than the others: a step takes {self.median_s:.4g} s in the median, theirs"
            f" {self.others_median_s:.4g} s, {self.factor:.3g} times as long, over {self.steps:,} steps"
        )


def stragglers(times: Mapping[str, tuple[Whole, Floats]]) -> list[Straggler]:
    """The slow among nodes given by their steps and what each took; the slowest first."""
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
        straggler = Straggler(node, float(medians[at]), float(np.median(others)), len(common), share)
        if share >= LEAST_SHARE and straggler.factor > LEAST_FACTOR:
            slow.append(straggler)
    return sorted(slow, key=lambda straggler: -straggler.factor)


def _middle(values: Floats) -> Floats:
    """The median over nodes, the slower of two: among three, a fast one makes the others no slower than they are."""
    middle: Floats = np.quantile(values, 0.5, axis=0, method="higher")
    return middle


def _timed(steps: Whole, seconds: Floats) -> tuple[Whole, Floats]:
    """Those with a time, in order, each once."""
    usable = np.isfinite(seconds) & (seconds > 0)
    numbers, first = np.unique(steps[usable], return_index=True)
    return numbers, seconds[usable][first]
