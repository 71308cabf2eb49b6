"""Whether the steps of a run still come, and within their time."""

import statistics
import time
from collections import deque

from steelyard.records import Failure
from steelyard.runner.limits import Limits
from steelyard.runner.recording import Recording

EVERY_S = 0.5


class Watch:
    """Looks at a run from its start on; what it finds overdue is a failure of the infrastructure."""

    def __init__(self, limits: Limits, recording: Recording) -> None:
        self.limits, self.recording = limits, recording
        self._progress: deque[float] = deque(maxlen=200)
        self._began = self._step_at = time.monotonic()
        self._step = 0

    def started(self) -> None:
        self._began = self._step_at = time.monotonic()

    def not_looking(self) -> None:
        """It could not be seen whether steps were done: what passed until now does not count."""
        self._step_at = time.monotonic()

    def heard(self) -> None:
        """After whatever a log said."""
        if self.recording.last_step != self._step:
            now = time.monotonic()
            if self._step:
                self._progress.append(now - self._step_at)
            self._step, self._step_at = self.recording.last_step, now

    def too_long(self) -> Failure | None:
        limit = self.limits.train
        if limit is None or time.monotonic() - self._began <= limit:
            return None
        return Failure(kind="time_limit", message=f"training took longer than {limit:g} s", phase="train")

    def stalled(self) -> str | None:
        """Where no step comes any more, since when."""
        quiet = time.monotonic() - self._step_at
        if not self._step:
            return f"no step within {self.limits.first_step:g} s" if quiet > self.limits.first_step else None
        usual = statistics.median(self._progress) if self._progress else 0.0
        borne = max(self.limits.stall_at_least, self.limits.stall_medians * usual)
        if self._step >= self.recording.planned_steps or quiet <= borne:
            return None
        return f"no step for {quiet:.0f} s after step {self._step}, where one takes {usual:.2g} s"
