"""How fast the nodes of a run step, and which of them is slower than the others."""

from collections import deque

import numpy as np

from steelyard.accounting.steady import MARKS
from steelyard.accounting.stragglers import Straggler, stragglers
from steelyard.records import Step

_KEPT, LOOK_EVERY = 1000, 100
"""Steps of each node that are held against the others', and how often they are."""


class Pace:
    """The last steps of each node, and what they took."""

    def __init__(self) -> None:
        self._times: dict[str, deque[tuple[int, float]]] = {}
        self._named: set[str] = set()

    def add(self, step: Step, host: str) -> None:
        if step.step_time_s is not None and not any(flag in MARKS for flag in step.flags):
            self._times.setdefault(host, deque(maxlen=_KEPT)).append((step.step, step.step_time_s))

    def slow(self) -> list[Straggler]:
        """Nodes that are slower than the others, each the first time."""
        times = {host: np.array(kept) for host, kept in self._times.items()}
        found = stragglers({host: (kept[:, 0].astype(np.int64), kept[:, 1]) for host, kept in times.items()})
        new = [one for one in found if one.node not in self._named]
        self._named.update(one.node for one in new)
        return new
