"""What a side's own rate and step time say of its steps, whatever it declares."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from steelyard.comparison.between_runs import geometric_mean
from steelyard.comparison.curve import common_steps
from steelyard.comparison.side import Side
from steelyard.records import StepTable
from steelyard.records.columns import Floats
from steelyard.verdict import Subject
from steelyard.verdict.figures import tokens_of

APART = 0.02
"""Figures are printed with three or four digits."""
_ODD = 0.02
"""Of the steps: the first and the last of a schedule are printed in many ways."""
_MOST_AROUND = 64
"""Steps on each side, beyond which any schedule would do."""
_FEWEST_PRINTED = 3


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


def clocks_apart(target: Side, baseline: Side) -> tuple[float, str] | None:
    """How far the moments of the logs make a speedup another than their step times do, in words too; None if nowhere.

    A side without fine moments is taken at its word.
    """
    ours, theirs = (_by_clock(side) for side in (target, baseline))
    if ours is None and theirs is None:
        return None
    apart = (ours or 1.0) / (theirs or 1.0)
    told = [
        f"{value:.4g} times as long as it says on {side.called}"
        for side, value in ((target, ours), (baseline, theirs))
        if value is not None
    ]
    return apart, f"by the moments of the logs a step takes {' and '.join(told)}"


def _by_clock(side: Side) -> float | None:
    """Time that passes over time that is said; of logs alone: our own moments are those at which a line was read."""
    found = [one.clock.each for one in side.subjects if one.run.manifest.ingested is not None]
    known = [value for value in found if value is not None]
    return geometric_mean(known) if known and len(known) == len(side.subjects) else None


def rates_apart(target: Side, baseline: Side) -> str | None:
    """Where the learning rates that runs of the two sides recorded are not of one schedule, whatever they declare."""
    return _first_apart(target, baseline, _rates_of_two)


def batches_apart(target: Side, baseline: Side) -> str | None:
    """Where a step that both sides recorded has not as many tokens: a batch that grows is a schedule of its own."""
    return _first_apart(target, baseline, _batches_of_two)


def samples_denied(target: Side, baseline: Side) -> str | None:
    """Where a run's own count of samples says that its steps have not the tokens they are said to have."""
    for one in (target, baseline):
        for subject in one.subjects:
            if denied := subject.events_of("samples_differ"):
                return f"by its own figures {one.called} ({subject.run.directory.name}): {denied[0].message}"
    return None


def _first_apart(target: Side, baseline: Side, of_two: Callable[[Subject, Subject], str | None]) -> str | None:
    """Every run against the first of the other side: two schedules on one side are found with either."""
    first, other = target.subjects[0], baseline.subjects[0]
    pairs = [*((one, other) for one in target.subjects), *((first, one) for one in baseline.subjects[1:])]
    return next((found for both in pairs if (found := of_two(*both)) is not None), None)


def _rates_of_two(ours: Subject, theirs: Subject) -> str | None:
    """A rate may be printed before its step or after, and stands still where a step is skipped.

    Each is therefore held to the other's of the steps around.
    """
    both = (ours.steps, theirs.steps)
    steps, at, there = common_steps(*(one.step for one in both))
    rates, others = both[0].learning_rate.values[at], both[1].learning_rate.values[there]
    known = np.isfinite(rates) & np.isfinite(others)
    steps, rates, others = steps[known], rates[known], others[known]
    around = 1 + max(_skipped(one) for one in both)
    if len(steps) < 2 * around + 1 or around > _MOST_AROUND:
        return None
    near = np.lib.stride_tricks.sliding_window_view(np.pad(others, around, mode="edge"), 2 * around + 1)
    slack = APART * np.abs(others).max() + _printed_apart(rates) + _printed_apart(others)
    apart = np.flatnonzero((rates < near.min(axis=1) - slack) | (rates > near.max(axis=1) + slack))
    if len(apart) <= _ODD * len(steps):
        return None
    first = apart[0]
    rate, other = f"{rates[first]:.4g}", f"{others[first]:.4g}"
    more = f" and at {len(apart) - 1:,} more" if len(apart) > 1 else ""
    return f"the learning rate at step {steps[first]:,} is {rate} on the target and {other} on the baseline{more}"


def _skipped(steps: StepTable) -> int:
    return int(np.nansum(np.where(steps.skipped.given, steps.skipped.values, 0.0)))


def _printed_apart(rates: Floats) -> float:
    """How far apart two rates are at least that were printed with few digits: all are multiples of that; 0 else."""
    values = np.unique(rates)
    if len(values) < _FEWEST_PRINTED:
        return 0.0
    least = float(np.diff(values).min())
    steps = values / least
    return least if np.allclose(steps, np.round(steps), atol=0.01) else 0.0


def _batches_of_two(ours: Subject, theirs: Subject) -> str | None:
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
