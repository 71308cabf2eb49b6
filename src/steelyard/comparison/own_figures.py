"""What the sides' own records say of their steps, whatever they declare."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from steelyard.comparison import codes
from steelyard.comparison.contract import effect_in
from steelyard.comparison.curve import common_steps
from steelyard.comparison.intervals import MARGIN, geometric_mean
from steelyard.comparison.side import Side
from steelyard.experiment.experiment import Mode
from steelyard.experiment.keys import KEYS, STATED
from steelyard.experiment.policy import Effect as Governs
from steelyard.experiment.policy import Metric
from steelyard.reasons import Effect, Reason, SideName
from steelyard.records import Event, StepTable
from steelyard.records.columns import Floats, Mask
from steelyard.verdict import Subject
from steelyard.verdict.figures import tokens_of

APART = 0.02
"""Figures are printed with three or four digits."""
_ODD = 0.02
"""Of the steps: the first and the last of a schedule are printed in many ways."""
_MOST_AROUND = 64
"""Steps on each side, beyond which any schedule would do."""
_FEWEST_PRINTED = 3
_TOLD_BY_STEP = ("training.global_batch_size", "training.sequence_length", "training.steps")
"""What a schedule may change: every step tells its own tokens, and the rates that it learns at."""
_OF_THE_WINDOW = (Metric.THROUGHPUT, Metric.FLOPS)
_EFFECTS = {name: key.policy.effects for name, key in {**STATED, **KEYS}.items()}
_DOTTED = {dotted.partition(".")[2]: dotted for dotted in STATED}
"""What no experiment has a key for is named without its group where a log says that it changed."""


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


def steps_apart(sides: Sequence[Side]) -> Reason | None:
    """Rate x GPUs x step time of each side, held against the other's: a batch that is not stated shows there."""
    ours, theirs = (own_step(side) for side in sides)
    if ours is None or theirs is None or abs(ours.tokens / theirs.tokens - 1) <= APART:
        return None
    values = {"target": ours.tokens, "baseline": theirs.tokens}
    return Reason(codes.STEP_TOKENS_DIFFER, values, Effect.BLOCKS, "both", ("training.tokens_per_step",))


def clocks_apart(sides: Sequence[Side], mode: Mode) -> Reason | None:
    """Where the moments of the logs make a speedup another than their step times do; beyond the margin it is refused.

    A side without fine moments is taken at its word.
    """
    ours, theirs = (_by_clock(side) for side in sides)
    apart = abs((ours or 1.0) / (theirs or 1.0) - 1)
    if apart <= APART:
        return None
    effect = effect_in(mode, Governs.BLOCKS if apart > MARGIN else Governs.QUALIFIES)
    values = {"target": ours, "baseline": theirs, "called": tuple(side.called for side in sides)}
    name: SideName = "both" if None not in (ours, theirs) else "baseline" if ours is None else "target"
    return Reason(codes.CLOCKS_DIFFER, values, effect, name)


def _by_clock(side: Side) -> float | None:
    """Time that passes over time that is said; of logs alone: our own moments are those at which a line was read."""
    factors = [subject.clock.each for subject in side.subjects if subject.run.manifest.ingested is not None]
    known = [factor for factor in factors if factor is not None]
    return geometric_mean(known) if known and len(known) == len(side.subjects) else None


def curves_apart(sides: Sequence[Side]) -> Iterator[Reason]:
    """Where the two sides recorded different steps, whatever they declare: batches, learning rates, counts of samples.

    A batch that grows is a schedule of its own.
    """
    for of_two in (_batches_of_two, _rates_of_two):
        if (reason := _first_apart(sides, of_two)) is not None:
            yield reason
    for side in sides:
        for subject in side.subjects:
            if events := subject.events_of("samples_differ"):
                values = {"run": side.run_name(subject), "event": events[0].message}
                yield Reason(codes.SAMPLES_CONTRADICT, values, Effect.BLOCKS, side.name)
                return


def _first_apart(sides: Sequence[Side], of_two: Callable[[Subject, Subject], Reason | None]) -> Reason | None:
    """Every run against the first of the other side: two schedules on one side are found with either."""
    target, baseline = (side.subjects for side in sides)
    pairs = [*((subject, baseline[0]) for subject in target), *((target[0], subject) for subject in baseline[1:])]
    return next((reason for both in pairs if (reason := of_two(*both)) is not None), None)


def _rates_of_two(ours: Subject, theirs: Subject) -> Reason | None:
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
    values = {"target": float(rates[first]), "baseline": float(others[first])}
    values |= {"step": int(steps[first]), "more": len(apart) - 1}
    return Reason(codes.LEARNING_RATES_DIFFER, values, Effect.BLOCKS, "both", ("training.learning_rate",))


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


def _batches_of_two(ours: Subject, theirs: Subject) -> Reason | None:
    if not ours.steps.tokens.given.any() and not theirs.steps.tokens.given.any():
        return None  # what is declared is for the contract
    steps, at, there = common_steps(ours.steps.step, theirs.steps.step)
    tokens = [tokens_of(one.steps, one.planned_tokens_per_step)[rows] for one, rows in ((ours, at), (theirs, there))]
    with np.errstate(invalid="ignore", divide="ignore"):
        apart = np.flatnonzero(np.abs(tokens[0] / tokens[1] - 1) > APART)
    if not len(apart):
        return None
    first = apart[0]
    values = {"target": float(tokens[0][first]), "baseline": float(tokens[1][first]), "step": int(steps[first])}
    return Reason(codes.BATCHES_DIFFER, values, Effect.BLOCKS, "both", ("training.tokens_per_step",))


def changes(metric: Metric, side: Side, mode: Mode) -> Iterator[Reason]:
    """Settings that changed amid the steps that a comparison rests on, as in a run that was resumed with others.

    Its figures are of two jobs.
    """
    for subject in side.subjects:
        for key, event in subject.changed_settings:
            dotted = _DOTTED.get(key, key)
            effect = None if dotted in _TOLD_BY_STEP else _EFFECTS.get(dotted, {}).get(metric)
            if effect is not None and _amid(subject, event, metric):
                values = {"run": side.run_name(subject), "event": event.message}
                yield Reason(codes.SETTING_CHANGED, values, effect_in(mode, effect), side.name, (dotted,))


def _amid(subject: Subject, event: Event, metric: Metric) -> bool:
    """Whether steps that count were made before it, and others after."""
    steps = subject.steps
    if event.source is None or event.source.file not in steps.source_files:
        return False
    here = steps.source_file == steps.source_files.index(event.source.file)
    after = steps.step[here & (steps.source_line > event.source.line)]
    if not len(after):
        return False
    counted: Mask = subject.figures.window.mask if metric in _OF_THE_WINDOW else np.ones(len(steps), dtype=np.bool_)
    before = steps.step[counted] < after.min()
    return bool(before.any() and not before.all())
