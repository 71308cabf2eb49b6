"""What a side's own rate and step time say of its steps, whatever it declares."""

from dataclasses import dataclass

import numpy as np

from steelyard.compare.curve import common_steps
from steelyard.compare.side import Side
from steelyard.verdict import Subject
from steelyard.verdict.figures import tokens_of

APART = 0.02
"""Figures are printed with three or four digits."""


@dataclass(frozen=True, slots=True)
class OwnStep:
    """One step, by the figures that a log reports."""

    rate: float
    """Tokens a second and GPU, in the median."""
    seconds: float
    gpus: int
    tokens: float
    """Rate x time of the same record x GPUs: medians of each do not multiply back where steps vary."""


def own_step(side: Side) -> OwnStep | None:
    """Of the first run that reports both figures; the runs of a side are of one job."""
    return next((found for subject in side.subjects if (found := _of_run(subject)) is not None), None)


def _of_run(subject: Subject) -> OwnStep | None:
    rates, times = subject.steps.reported_tokens_per_s_per_gpu, subject.steps.step_time_s
    rows, world = rates.finite & times.finite & (rates.values > 0) & (times.values > 0), subject.world_size
    if world is None or not rows.any():
        return None
    rate, seconds = rates.values[rows], times.values[rows]
    each = float(np.median(rate * seconds))
    return OwnStep(float(np.median(rate)), float(np.median(seconds)), world, each * world)


def batches_apart(target: Side, baseline: Side) -> str | None:
    """Where a step that both sides recorded has not as many tokens: a batch that grows is a schedule of its own."""
    ours, theirs = (side.subjects[0] for side in (target, baseline))
    if not ours.steps.tokens.given.any() and not theirs.steps.tokens.given.any():
        return None  # what is declared is for the contract
    steps, at, there = common_steps(ours.steps.step, theirs.steps.step)
    tokens = [tokens_of(one.steps, one.planned_tokens_per_step)[rows] for one, rows in ((ours, at), (theirs, there))]
    with np.errstate(invalid="ignore"):
        apart = np.flatnonzero(np.abs(tokens[0] / tokens[1] - 1) > APART)
    if not len(apart):
        return None
    first = apart[0]
    counts = f"{tokens[0][first]:,.0f} tokens on the target and {tokens[1][first]:,.0f} on the baseline"
    return f"step {steps[first]:,} is {counts}"
