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
    if world is None or not rows.any():
        rate, time = subject.figures.tokens_per_s_per_gpu.value, subject.figures.step_time_s.value
        return OwnStep(rate, time, world) if world and rate and time else None
    return OwnStep(float(np.median(rates.values[rows])), float(np.median(times.values[rows])), world)
