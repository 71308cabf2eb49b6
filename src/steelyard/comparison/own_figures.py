"""Checks recorded steps against each other, independent of declared settings."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from steelyard.comparison import codes
from steelyard.comparison.contract import effect_in
from steelyard.comparison.curve import common_steps
from steelyard.comparison.intervals import MARGIN, geometric_mean
from steelyard.comparison.side import Side
from steelyard.comparison.smoothing import smoothed
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
"""Share of the steps: frameworks print the first and last rate of a schedule in different ways."""
_MOST_AROUND = 64
"""Steps on each side; with more, any schedule would match."""
_FEWEST_PRINTED = 3
_OF_SCHEDULE = ("training.global_batch_size", "training.sequence_length", "training.steps")
"""Settings that a schedule may change: every step has its own tokens and learning rate."""
_OF_THE_WINDOW = (Metric.THROUGHPUT, Metric.FLOPS)
_EFFECTS = {name: key.policy.effects for name, key in {**STATED, **KEYS}.items()}
_DOTTED = {dotted.partition(".")[2]: dotted for dotted in STATED}
"""Full names of settings without an experiment key, which logs name without their group."""


@dataclass(frozen=True, slots=True)
class OwnStep:
    """One step by the reported figures."""

    rate: float
    """Median tokens/s per GPU."""
    seconds: float
    gpus: int
    tokens: float
    """Median of rate x time of the same record, times GPUs; medians of each would not multiply where steps vary."""


def own_step(side: Side) -> OwnStep | None:
    """From the first run that reports both figures."""
    for subject in side.subjects:
        rates, times = subject.steps.reported_tokens_per_s_per_gpu, subject.steps.step_time_s
        rows = rates.finite & times.finite & (rates.values > 0) & (times.values > 0)
        if (world := subject.world_size) is not None and rows.any():
            rate, seconds = rates.values[rows], times.values[rows]
            tokens = float(np.median(rate * seconds)) * world
            return OwnStep(float(np.median(rate)), float(np.median(seconds)), world, tokens)
    return None


def steps_apart(sides: Sequence[Side]) -> Reason | None:
    """Compare rate x GPUs x step time of both sides: this finds different batch sizes that were not declared."""
    target, baseline = map(own_step, sides)
    if target is None or baseline is None or abs(target.tokens / baseline.tokens - 1) <= APART:
        return None
    called = tuple(side.called for side in sides)
    tokens = {"target": target.tokens, "baseline": baseline.tokens, "called": called}
    return codes.because(codes.STEP_TOKENS_DIFFER, Effect.BLOCKS, "both", "training.tokens_per_step", **tokens)


def clocks_apart(sides: Sequence[Side], mode: Mode) -> Reason | None:
    """Whether timestamps give another speedup than reported step times; unknown without timestamps."""
    target, baseline = map(_by_clock, sides)
    apart = abs((target or 1.0) / (baseline or 1.0) - 1)
    if apart <= APART:
        return None
    effect = effect_in(mode, Governs.BLOCKS if apart > MARGIN else Governs.QUALIFIES)
    name: SideName = "both" if None not in (target, baseline) else "baseline" if target is None else "target"
    called = tuple(side.called for side in sides)
    return codes.because(codes.CLOCKS_DIFFER, effect, name, target=target, baseline=baseline, called=called)


def _by_clock(side: Side) -> float | None:
    """Time by timestamps over reported time, for imported logs only: our own timestamps are when a line was read."""
    factors = [subject.clock.each for subject in side.subjects if subject.run.manifest.ingested is not None]
    known = [factor for factor in factors if factor is not None]
    return geometric_mean(known) if known and len(known) == len(side.subjects) else None


def curves_apart(sides: Sequence[Side]) -> Iterator[Reason]:
    """Smoothed losses; different batches, learning rates or samples, each run against the first of the other side."""
    yield from smoothed(sides)
    target, baseline = (side.subjects for side in sides)
    pairs = [*((subject, baseline[0]) for subject in target), *((target[0], subject) for subject in baseline[1:])]
    called = tuple(side.called for side in sides)
    for apart in (_batches_apart, _rates_apart):
        yield from islice((reason for runs in pairs if (reason := apart(*runs, called)) is not None), 1)
    for side in sides:
        for subject in side.subjects:
            if events := subject.events_of("samples_differ"):
                values = {"run": side.run_name(subject), "event": events[0].message}
                yield codes.because(codes.SAMPLES_CONTRADICT, Effect.BLOCKS, side.name, **values)
                return


def _rates_apart(target: Subject, baseline: Subject, called: tuple[str, ...]) -> Reason | None:
    """Compare with rates of the steps around: some logs print the rate before a step, others after it."""
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
    rate = {"target": float(rates[row]), "baseline": float(others[row])}
    where = {"step": int(steps[row]), "more": len(apart) - 1, "called": called}
    key = "training.learning_rate"
    return codes.because(codes.LEARNING_RATES_DIFFER, Effect.BLOCKS, "both", key, **rate, **where)


def _printed_apart(rates: Floats) -> float:
    """The unit of rates that were printed with few digits; 0 if they have none."""
    values = np.unique(rates)
    if len(values) < _FEWEST_PRINTED:
        return 0.0
    least = float(np.diff(values).min())
    steps = values / least
    return least if np.allclose(steps, np.round(steps), atol=0.01) else 0.0


def _batches_apart(target: Subject, baseline: Subject, called: tuple[str, ...]) -> Reason | None:
    if not target.steps.tokens.given.any() and not baseline.steps.tokens.given.any():
        return None  # the contract compares declared batches
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
    key = "training.tokens_per_step"
    return codes.because(codes.BATCHES_DIFFER, Effect.BLOCKS, "both", key, **values, called=called)


def changes(metric: Metric, side: Side, mode: Mode) -> Iterator[Reason]:
    """Settings that changed between steps that the comparison uses."""
    for subject in side.subjects:
        for key, event in subject.changed_settings:
            dotted = _DOTTED.get(key, key)
            effect = None if dotted in _OF_SCHEDULE else _EFFECTS.get(dotted, {}).get(metric)
            if effect is not None and _between_steps(subject, event, metric):
                values = {"run": side.run_name(subject), "event": event.message}
                yield codes.because(codes.SETTING_CHANGED, effect_in(mode, effect), side.name, dotted, **values)


def _between_steps(subject: Subject, event: Event, metric: Metric) -> bool:
    """Whether counted steps come before and after the event."""
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
