"""Checks that the steps of a run come within their time limits and that it exits after the last one."""

import statistics
import time
from collections import deque

from steelyard.execute.executor import Limits
from steelyard.execute.recording import Recording
from steelyard.records import Failure

EVERY_S = 0.5
_SLOWEST_OF_PEAK = 100.0
"""A step at 1% of the peak is the slowest expected step, unless the observed steps are slower."""


class Watchdog:
    """Watches a run from its start; a missed limit is an infrastructure failure."""

    def __init__(self, limits: Limits, recording: Recording, seconds_at_peak: float | None) -> None:
        """`seconds_at_peak`: the planned time of all steps at the dense peak."""
        self.limits, self.recording = limits, recording
        self._step_at_peak_s = (seconds_at_peak or 0.0) / max(1, recording.planned_steps)
        self._progress: deque[float] = deque(maxlen=200)
        self._began = self._step_at = time.monotonic()
        self._step = 0
        self._done_at: float | None = None
        """When the last planned step was seen."""

    def started(self) -> None:
        self._began = self._step_at = time.monotonic()

    def not_looking(self) -> None:
        """Steps could not be seen: the time until now does not count."""
        self._step_at = time.monotonic()

    def steps_may_have_come(self) -> None:
        """Called after each output of a node."""
        if self.recording.last_step != self._step:
            now = time.monotonic()
            if self._step:
                self._progress.append(now - self._step_at)
            self._step, self._step_at = self.recording.last_step, now
            if self._done_at is None and self._step >= self.recording.planned_steps:
                self._done_at = now

    @property
    def time_limit_s(self) -> float:
        """The requested limit, or the time of the plan with the slowest expected steps."""
        if self.limits.train is not None:
            return self.limits.train
        return self.limits.first_step + self.recording.planned_steps * self._slowest_step_s() + self.limits.exit

    def too_long(self) -> Failure | None:
        """A failure if training takes too long, or does not exit after its last step."""
        now, limit = time.monotonic(), self.time_limit_s
        if now - self._began > limit:
            return Failure(kind="time_limit", message=f"training took longer than {limit:g} s", phase="train")
        if self._done_at is not None and now - self._done_at > self.limits.exit:
            message = f"the training program did not exit within {self.limits.exit:g} s"
            return Failure(kind="hang_at_exit", message=f"{message} after its last step {self._step}", phase="train")
        return None

    def stalled(self) -> Failure | None:
        """A failure if no step has come for too long."""
        quiet = time.monotonic() - self._step_at
        if not self._step:
            message, allowed = f"no step within {self.limits.first_step:g} s", self.limits.first_step
        else:
            message = f"no step for {quiet:.0f} s after step {self._step}"
            if self._progress:
                message += f" (median step: {self._usual_s():.2g} s)"
            allowed = self._slowest_step_s() if self._progress else max(self._slowest_step_s(), self.limits.first_step)
        if self._step >= self.recording.planned_steps or quiet <= allowed:
            return None
        return Failure(kind="stall", message=message, phase="train")

    def _usual_s(self) -> float:
        return statistics.median(self._progress) if self._progress else 0.0

    def _slowest_step_s(self) -> float:
        usual, at_peak = self.limits.stall_medians * self._usual_s(), _SLOWEST_OF_PEAK * self._step_at_peak_s
        return max(self.limits.stall_at_least, usual, at_peak)
