"""Whether the samples a log counts grow by the batch it says, over the first records after a start."""

from statistics import median_low

_ENOUGH = 5
"""Distances between records: one that is odd, at the end of an epoch say, does not decide."""
_FEWEST = 2
_APART = 0.02


class Consumed:
    """The counter of one series."""

    def __init__(self) -> None:
        self._before: tuple[int, float, float] | None = None
        self._grown: list[float] = []
        self._records = 0
        self._settled = False

    @property
    def pending(self) -> bool:
        """Whether records are still needed to tell."""
        return self._before is not None and not self._settled

    def settle(self) -> None:
        """It was told already, or elsewhere."""
        self._settled = True

    def start(self) -> None:
        """The next record follows none."""
        self._before, self._grown, self._records, self._settled = None, [], 0, False

    def take(self, step: int, batch: float | None, consumed: float | None) -> float | None:
        """The next record; once it is plain, what a step consumes where that is not the batch."""
        if batch is None or consumed is None or (self._before is not None and step == self._before[0]):
            return None
        before = self._before
        if before is None or step < before[0] or batch != before[1]:
            self.start()
            self._before = step, batch, consumed
            return None
        self._before = step, batch, consumed
        if self._settled:
            return None
        self._records += 1
        if consumed > before[2]:  # a counter that was set back, or stands still, says nothing of a batch
            self._grown.append((consumed - before[2]) / (step - before[0]))
        return self.end() if self._records >= _ENOUGH else None

    def end(self) -> float | None:
        """No more records are waited for: what a step consumes, where that is not the batch."""
        if not self.pending or self._before is None:
            return None
        self._settled = True
        if len(self._grown) < _FEWEST:
            return None
        each = median_low(self._grown)
        return each if abs(each - self._before[1]) > _APART * self._before[1] else None
