"""What a side's own rate and step time say of its steps, whatever it declares."""

from dataclasses import dataclass

import numpy as np

from steelyard.compare.side import Side
from steelyard.verdict import Subject

APART = 0.02
"""Figures are printed with three or four digits."""


@dataclass(frozen=True, slots=True)
class OwnStep:
    """One step, by the figures of the runs."""

    rate: float
    """Tokens a second and GPU."""
    seconds: float
    gpus: int

    @property
    def tokens(self) -> float:
        return self.rate * self.gpus * self.seconds


def own_step(side: Side) -> OwnStep | None:
    """Of the first run that gives both figures; the runs of a side are of one job."""
    return next((found for subject in side.subjects if (found := _of_run(subject)) is not None), None)


def _of_run(subject: Subject) -> OwnStep | None:
    rates, times = subject.steps.reported_tokens_per_s_per_gpu, subject.steps.step_time_s
    rows = rates.finite & times.finite
    world = subject.world_size
    if rows.any():
        rate, seconds = (float(np.median(column.values[rows])) for column in (rates, times))
    else:
        rate, seconds = subject.figures.tokens_per_s_per_gpu.value or 0.0, subject.figures.step_time_s.value or 0.0
    return OwnStep(rate, seconds, world) if world and rate > 0 and seconds > 0 else None
