"""What the sides' own records say of their steps, whatever they declare."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

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
from steelyard.records import Event
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
_OF_SCHEDULE = ("training.global_batch_size", "training.sequence_length", "training.steps")
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
    for subject in side.subjects:
        rates, times = subject.steps.reported_tokens_per_s_per_gpu, subject.steps.step_time_s
        rows = rates.finite & times.finite & (rates.values > 0) & (times.values > 0)
        if (world := subject.world_size) is not None and rows.any():
            rate, seconds = rates.values[rows], times.values[rows]
            tokens = float(np.median(rate * seconds)) * world
            return OwnStep(float(np.median(rate)), float(np.median(seconds)), world, tokens)
    return None


def steps_apart(sides: Sequence[Side]) -> Reason | None:
    """Rate x GPUs x step time of each side, held against the other's: a batch that is not stated shows there."""
    target, baseline = map(own_step, sides)
    if target is None or baseline is None or abs(target.tokens / baseline.tokens - 1) <= APART:
        return None
    tokens = {"target": target.tokens, "baseline": baseline.tokens}
    return codes.because(codes.STEP_TOKENS_DIFFER, Effect.BLOCKS, "both", "training.tokens_per_step", **tokens)


def clocks_apart(sides: Sequence[Side], mode: Mode) -> Reason | None:
    """Where the moments of the logs make another speedup than step times do; without moments the times stand."""
    target, baseline = map(_by_clock, sides)
    apart = abs((target or 1.0) / (baseline or 1.0) - 1)
    if apart <= APART:
        return None
    effect = effect_in(mode, Governs.BLOCKS if apart > MARGIN else Governs.QUALIFIES)
    name: SideName = "both" if None not in (target, baseline) else "baseline" if target is None else "target"
    called = tuple(side.called for side in sides)
    return codes.because(codes.CLOCKS_DIFFER, effect, name, target=target, baseline=baseline, called=called)


def _by_clock(side: Side) -> float | None:
    """Time that passes over time that is said; of logs alone: our own moments are those at which a line was read."""
    factors = [subject.clock.each for subject in side.subjects if subject.run.manifest.ingested is not None]
    known = [factor for factor in factors if factor is not None]
    return geometric_mean(known) if known and len(known) == len(side.subjects) else None


def curves_apart(sides: Sequence[Side]) -> Iterator[Reason]:
    """Where the sides recorded other batches, learning rates or samples: each run against the other side's first."""
    target, baseline = (side.subjects for side in sides)
    pairs = [*((subject, baseline[0]) for subject in target), *((target[0], subject) for subject in baseline[1:])]
    for apart in (_batches_apart, _rates_apart):
        yield from islice((reason for runs in pairs if (reason := apart(*runs)) is not None), 1)
    for side in sides:
        for subject in side.subjects:
            if events := subject.events_of("samples_differ"):
                values = {"run": side.run_name(subject), "event": events[0].message}
                yield codes.because(codes.SAMPLES_CONTRADICT, Effect.BLOCKS, side.name, **values)
                return


def _rates_apart(target: Subject, baseline: Subject) -> Reason | None:
    """Held to the other's of the steps around: rates are printed before or after a step, and a skipped one keeps it."""
    tables = (target.steps, baseline.steps)
    steps, at, there = common_steps(target.steps.step, baseline.steps.step)
    rates, others = tables[0].learning_rate.values[at], tables[1].learning_rate.values[there]
    known = np.isfinite(rates) & np.isfinite(others)
    steps, rates, others = steps[known], rates[known], others[known]
    skipped = (np.nansum(np.where(table.skipped.given, table.skipped.values, 0.0)) for table in tables)
    around = 1 + max(map(int, skipped))
    if len(steps) < 2 * around + 1 or around > _MOST_AROUND:
        return None
    near = np.lib.stride_tricks.sliding_window_view(np.pad(others, around, mode="edge"), 2 * around + 1)
    slack = APART * np.abs(others).max() + _printed_apart(rates) + _printed_apart(others)
    apart = np.flatnonzero((rates < near.min(axis=1) - slack) | (rates > near.max(axis=1) + slack))
    if len(apart) <= _ODD * len(steps):
        return None
    row = apart[0]
    values = {"step": int(steps[row]), "target": float(rates[row]), "baseline": float(others[row])}
    key = "training.learning_rate"
    return codes.because(codes.LEARNING_RATES_DIFFER, Effect.BLOCKS, "both", key, **values, more=len(apart) - 1)


def _printed_apart(rates: Floats) -> float:
    """How far apart two rates are at least that were printed with few digits: all are multiples of that; 0 else."""
    values = np.unique(rates)
    if len(values) < _FEWEST_PRINTED:
        return 0.0
    least = float(np.diff(values).min())
    steps = values / least
    return least if np.allclose(steps, np.round(steps), atol=0.01) else 0.0


def _batches_apart(target: Subject, baseline: Subject) -> Reason | None:
    if not target.steps.tokens.given.any() and not baseline.steps.tokens.given.any():
        return None  # what is declared is for the contract
    steps, *rows = common_steps(target.steps.step, baseline.steps.step)
    tokens = [
        tokens_of(subject.steps, subject.planned_tokens_per_step)[own]
        for subject, own in zip((target, baseline), rows, strict=True)
    ]
    with np.errstate(invalid="ignore", divide="ignore"):
        apart = np.flatnonzero(np.abs(tokens[0] / tokens[1] - 1) > APART)
    if not len(apart):
        return None
    row = apart[0]
    values = {"step": int(steps[row]), "target": float(tokens[0][row]), "baseline": float(tokens[1][row])}
    return codes.because(codes.BATCHES_DIFFER, Effect.BLOCKS, "both", "training.tokens_per_step", **values)


def changes(metric: Metric, side: Side, mode: Mode) -> Iterator[Reason]:
    """Settings that changed amid the steps that a comparison rests on: the figures are then of two jobs."""
    for subject in side.subjects:
        for key, event in subject.changed_settings:
            dotted = _DOTTED.get(key, key)
            effect = None if dotted in _OF_SCHEDULE else _EFFECTS.get(dotted, {}).get(metric)
            if effect is not None and _amid(subject, event, metric):
                values = {"run": side.run_name(subject), "event": event.message}
                yield codes.because(codes.SETTING_CHANGED, effect_in(mode, effect), side.name, dotted, **values)


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
