"""What a side's own rate and step time say of its steps, whatever it declares."""

from dataclasses import dataclass

import numpy as np

from steelyard.compare.curve import common_steps
from steelyard.compare.side import Side
from steelyard.verdict import Subject
from steelyard.verdict.figures import tokens_of

APART = 0.02
"""Figures are printed with three or four digits."""
_ODD = 0.02
"""Of the steps: the first and the last of a schedule are printed in many ways."""


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


def rates_apart(target: Side, baseline: Side) -> str | None:
    """Where the learning rates that both sides recorded are not of one schedule, whatever they declare.

    A rate may be printed before its step or after: each is held to the other's of the step and of its neighbours.
    """
    ours, theirs = (side.subjects[0].steps for side in (target, baseline))
    steps, at, there = common_steps(ours.step, theirs.step)
    rates, others = ours.learning_rate.values[at], theirs.learning_rate.values[there]
    known = np.isfinite(rates) & np.isfinite(others)
    steps, rates, others = steps[known], rates[known], others[known]
    if not len(steps):
        return None
    around = np.stack([others, np.append(others[1:], others[-1:]), np.append(others[:1], others[:-1])])
    slack = APART * np.abs(others).max()
    apart = np.flatnonzero((rates < around.min(axis=0) - slack) | (rates > around.max(axis=0) + slack))
    if len(apart) <= _ODD * len(steps):
        return None
    first = apart[0]
    rate, other = f"{rates[first]:.4g}", f"{others[first]:.4g}"
    more = f" and at {len(apart) - 1:,} more" if len(apart) > 1 else ""
    return f"the learning rate at step {steps[first]:,} is {rate} on the target and {other} on the baseline{more}"


def batches_apart(target: Side, baseline: Side) -> str | None:
    """Where a step that both sides recorded has not as many tokens: a batch that grows is a schedule of its own."""
    ours, theirs = (side.subjects[0] for side in (target, baseline))
    if not ours.steps.tokens.given.any() and not theirs.steps.tokens.given.any():
        return None  # what is declared is for the contract
    steps, at, there = common_steps(ours.steps.step, theirs.steps.step)
    tokens = [tokens_of(one.steps, one.planned_tokens_per_step)[rows] for one, rows in ((ours, at), (theirs, there))]
    with np.errstate(invalid="ignore", divide="ignore"):
        apart = np.flatnonzero(np.abs(tokens[0] / tokens[1] - 1) > APART)
    if not len(apart):
        return None
    first = apart[0]
    counts = f"{tokens[0][first]:,.0f} tokens on the target and {tokens[1][first]:,.0f} on the baseline"
    return f"step {steps[first]:,} is {counts}"
