"""The three ratios: throughput speedup, memory usage efficiency, FLOPs utilization."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from steelyard.accounting.steady import MIN_STEADY_RECORDS, MIN_STEADY_STEPS
from steelyard.comparison import codes, intervals, turns
from steelyard.comparison.codes import because
from steelyard.comparison.intervals import FEWEST, LEVEL, MARGIN, Between, Outcome, Words, geometric_mean, outcome_of
from steelyard.comparison.phrases import each, plural
from steelyard.comparison.side import Side, shared_hosts
from steelyard.experiment.policy import Metric
from steelyard.frameworks.registry import memory_kind
from steelyard.reasons import Effect, Reason
from steelyard.verdict import Subject

TERMS = {
    Metric.THROUGHPUT: Words("faster", "slower"),
    Metric.MEMORY: Words("needs less", "needs more"),
    Metric.FLOPS: Words("higher MFU", "lower MFU"),
}
_CALLED = {Metric.THROUGHPUT: "throughput", Metric.MEMORY: "peak memory", Metric.FLOPS: "MFU"}
FIGURE_OF = {Metric.THROUGHPUT: "tokens_per_s_per_gpu", Metric.MEMORY: "memory_peak_gib", Metric.FLOPS: "mfu"}
NAME_OF = {
    Metric.THROUGHPUT: "throughput_speedup",
    Metric.MEMORY: "memory_usage_efficiency",
    Metric.FLOPS: "flops_utilization",
}
_MOST_OF_IT = 0.9
"""Share of a run's records; memory measured before it is early."""
_MOST_SETTLED = 2 / 3
"""With more settled runs than this, the others are outliers; with fewer, the warm-up is longer than the runs."""
_INTERNAL = ("terms", "estimate")
"""Fields that are not in JSON."""
_LENGTHS = 1.1
"""Runs of one plan differ by a few steps at most."""
_REMAINING = 3.0
"""What is left of a warm-up over what its window fell by: 1 for a line, 2.1 where tau is as long as the window."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """Target over baseline, and for memory baseline over target: above 1 is good for the target."""

    value: float
    low: float | None
    high: float | None
    interval: str
    """within_run: from the steps of one run per side. runs: between runs."""
    level: float
    target_runs: int
    baseline_runs: int
    outcome: Outcome
    method: str | None
    """How low and high were computed; None without an interval."""
    target_figure: float
    baseline_figure: float
    notes: tuple[Reason, ...]
    """Caveats of the figures."""
    margin: float
    more_runs: int | None
    """How many more runs per side to take before the next look, which then decides with a chance of 80%."""
    look: int
    """1: the first comparison of these runs. Each later look at a growing set of runs is stricter."""
    blocks: int | None
    """Blocks of time with runs of both sides; null if the runs were not in turns."""
    estimate: Between | None
    terms: Words
    kind: str | None
    """What the memory figures measure; None for other ratios."""

    @property
    def decided(self) -> bool:
        return self.outcome.decided

    @property
    def words(self) -> str:
        match self.outcome:
            case Outcome.SINGLE_RUN:
                return "single-run observation"
            case Outcome.TOO_FEW_RUNS:
                runs = each((self.target_runs, self.baseline_runs), "run")
                return f"observation: {runs}, at least {FEWEST} per side needed"
            case Outcome.NO_SPREAD:
                return "observation: the runs of a side have identical figures"
            case Outcome.UNSETTLED:
                return "observation: step times had not settled"
            case Outcome.INCONCLUSIVE:
                if not self.more_runs:
                    return f"{self.outcome.value}: over {intervals.MOST_RUNS} runs per side needed"
                return f"{self.outcome.value}: take {plural(self.more_runs, 'more run')} per side, then compare all"
        return self.terms.of(self.outcome, self.margin)

    def document(self) -> dict[str, Any]:
        content = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in _INTERNAL}
        notes = {"notes": [note.message for note in self.notes], "caveats": [note.document() for note in self.notes]}
        return {**content, "words": self.words, "decided": self.decided, **notes}


def missing(metric: Metric, side: Side) -> Reason | None:
    name = FIGURE_OF[metric]
    for subject in side.subjects:
        figure = subject.figures.metric(name)
        if figure.value is None:
            values = {"run": side.run_name(subject), "figure": _CALLED[metric], "why": figure.why}
            return because(codes.FIGURE_MISSING, Effect.UNKNOWN, side.name, **values)
    return None


def lacking(metric: Metric, sides: Sequence[Side]) -> Iterator[Reason]:
    """What a ratio lacks: a figure per side, enough steady steps for a rate, a peak for memory."""
    for side in sides:
        yield from _no_peak(side) if metric == Metric.MEMORY else _unsteady(side)
        if (reason := missing(metric, side)) is not None:
            yield reason
    if metric == Metric.FLOPS:
        yield from _by_other_formulas(sides)


def _by_other_formulas(sides: Sequence[Side]) -> Iterator[Reason]:
    """FLOPs as the frameworks report them, where ours are unknown: comparable for one framework and version only."""
    runs = [(side, subject) for side in sides for subject in side.subjects]
    reported = [side.run_name(subject) for side, subject in runs if subject.figures.mfu.reported]
    manifests = [subject.run.manifest for _, subject in runs]
    formulas = {(each.ingested.dialect, each.ingested.era) if each.ingested else None for each in manifests}
    if reported and (len(reported) < len(runs) or len(formulas) > 1):
        yield because(codes.FORMULAS_DIFFER, Effect.UNKNOWN, "both", runs=tuple(reported))


def _unsteady(side: Side) -> Iterator[Reason]:
    for subject in side.subjects:
        window, run, least = subject.figures.window, side.run_name(subject), MIN_STEADY_STEPS
        records = int(window.mask.sum())
        if not window.steps and not subject.tells_times:
            yield because(codes.TIMES_MISSING, Effect.UNKNOWN, side.name, run=run)
        elif subject.clock.contradicts and (subject.trusts_step_times or not window.steps):
            yield because(codes.CLOCK_CONTRADICTS, Effect.BLOCKS, side.name, run=run, ratio=subject.clock.ratio)
        elif (steps := window.steps) < least:
            yield because(codes.TOO_FEW_STEADY_STEPS, Effect.UNKNOWN, side.name, run=run, steps=steps, least=least)
        elif records < MIN_STEADY_RECORDS:
            few = {"records": records, "least": MIN_STEADY_RECORDS}
            yield because(codes.TOO_FEW_STEADY_RECORDS, Effect.UNKNOWN, side.name, run=run, **few)


def _no_peak(side: Side) -> Iterator[Reason]:
    if any(not memory_kind(subject.figures.memory_kind).is_peak for subject in side.subjects):
        yield because(codes.MEMORY_BEFORE_TRAINING, Effect.UNKNOWN, side.name, side=side.called)
    for subject in side.subjects:
        if subject.events_of("oom"):
            yield because(codes.OUT_OF_MEMORY, Effect.UNKNOWN, side.name, run=side.run_name(subject))


def ratio(
    metric: Metric,
    target: Side,
    baseline: Side,
    margin: float = MARGIN,
    terms: Words | None = None,
    look: int = 1,
) -> Ratio:
    """The ratio of the geometric means of both sides, whose figures are all known."""
    sides, of_memory = (target, baseline), metric == Metric.MEMORY
    figures = [figures_of(metric, side.subjects) for side in sides]
    goods = [[1 / value for value in side] for side in figures] if of_memory else figures  # less memory is better
    value, counts = geometric_mean(goods[0]) / geometric_mean(goods[1]), (len(figures[0]), len(figures[1]))
    times = None if of_memory else turns.schedule(sides)
    blocks, by_runs = _between_runs(goods, of_memory, times)
    drift = 0.0 if of_memory else _drift(sides)
    by_runs = replace(by_runs, drift=drift) if by_runs else None
    bounds = intervals.interval_at(by_runs, look) if by_runs else None
    method = (intervals.IN_BLOCKS if blocks else intervals.BETWEEN_RUNS) if by_runs else None
    if counts == (1, 1) and not of_memory:  # a peak is one figure: it has no spread inside a run
        bounds = intervals.within_runs(value, *(intervals.spread_of(side.subjects[0]) for side in sides))
        method = intervals.WITHIN_RUN if bounds else None
    outcome = _outcome(by_runs, counts, margin, look, not of_memory and _both_fall(sides, margin))
    is_open = outcome == Outcome.INCONCLUSIVE
    return Ratio(
        value=by_runs.value if by_runs else value,
        low=bounds[0] if bounds else None,
        high=bounds[1] if bounds else None,
        interval="within_run" if counts == (1, 1) else "runs",
        level=LEVEL,
        target_runs=counts[0],
        baseline_runs=counts[1],
        outcome=outcome,
        method=method,
        target_figure=geometric_mean(figures[0]),
        baseline_figure=geometric_mean(figures[1]),
        notes=tuple(_notes(sides, figures, of_memory, by_runs, look, times)),
        margin=margin,
        more_runs=intervals.more_runs(by_runs, min(counts), margin, look) if by_runs and is_open else None,
        look=look,
        blocks=blocks or None,
        estimate=by_runs,
        terms=terms or TERMS[metric],
        kind=_kind(sides) if of_memory else None,
    )


def _kind(sides: tuple[Side, Side]) -> str | None:
    """The kind of memory that all runs measure."""
    kinds = {subject.figures.memory_kind for side in sides for subject in side.subjects}
    return kinds.pop() if len(kinds) == 1 else None


def _between_runs(
    goods: Sequence[Sequence[float]], of_memory: bool, times: turns.Schedule | None
) -> tuple[int, Between | None]:
    """The number of blocks of runs in turns, and the estimate; 0 if the runs were not in turns."""
    by_runs = intervals.between(goods[0], goods[1], counted=of_memory)
    if by_runs is None or times is None or not (blocks := times.blocks):
        return 0, by_runs
    target, baseline = goods
    split = [
        ([target[slot.at] for slot in block if not slot.side], [baseline[slot.at] for slot in block if slot.side])
        for block in blocks
    ]
    within = intervals.within_blocks(split)
    return (len(blocks), within) if within and within.standard_error > intervals.SAME else (0, by_runs)


def _outcome(by_runs: Between | None, counts: tuple[int, int], margin: float, look: int, both_fall: bool) -> Outcome:
    if min(counts) < FEWEST:
        return Outcome.SINGLE_RUN if counts == (1, 1) else Outcome.TOO_FEW_RUNS
    if by_runs is None:
        return Outcome.NO_SPREAD
    outcome = outcome_of(by_runs, margin, look)
    by_drift = not outcome.decided and outcome_of(replace(by_runs, drift=0.0), margin, look).decided
    return Outcome.UNSETTLED if both_fall or by_drift else outcome


def _falls(side: Side) -> list[float]:
    """How far the step times of each run still fall; a slower end counts as 0."""
    return [max(0.0, subject.figures.window.fall) for subject in side.subjects]


def _drift(sides: tuple[Side, Side]) -> float:
    """What is left of warm-ups in the ratio's logarithm; 0 if most runs settled and both sides fall alike."""
    target, baseline = ([math.exp(fall) for fall in _falls(side)] for side in sides)
    apart = intervals.between(target, baseline, counted=True)
    alike = apart is None or apart.interval()[0] <= 1 <= apart.interval()[1]
    settled = [[subject.figures.window.settled for subject in side.subjects] for side in sides]
    if alike and all(sum(side) > _MOST_SETTLED * len(side) for side in settled):
        return 0.0
    return _REMAINING * math.log(geometric_mean(target) / geometric_mean(baseline))


def _both_fall(sides: Sequence[Side], margin: float) -> bool:
    """Whether what is left of the warm-ups exceeds the margin on both sides: that they do so alike is chance."""
    return _REMAINING * min(float(np.median(_falls(side))) for side in sides) > margin


def _notes(
    sides: tuple[Side, Side],
    figures: Sequence[Sequence[float]],
    of_memory: bool,
    by_runs: Between | None,
    look: int,
    times: turns.Schedule | None,
) -> Iterator[Reason]:
    if by_runs and look > 1:
        yield because(codes.LATER_LOOK, Effect.CAVEAT, "both", look=look, error=intervals.error_at(look))
    for side, values in zip(sides, figures, strict=True):
        if not of_memory and len(values) > 1 and not intervals.vary(values):
            yield because(codes.RUNS_DO_NOT_VARY, Effect.CAVEAT, side.name, side=side.called)
    yield from turns.notes(times, sides)
    hosts = [shared_hosts(side.subjects) if min(map(len, figures)) > 1 else None for side in sides]
    if hosts[0] and hosts[0] == hosts[1]:
        yield because(codes.SAME_HOSTS, Effect.CAVEAT, "both", side="both sides", hosts=hosts[0])
    else:
        for side, own in zip(sides, hosts, strict=True):
            if own:
                yield because(codes.SAME_HOSTS, Effect.CAVEAT, side.name, side=side.called, hosts=own)
    if of_memory:
        for side in sides:
            yield from _read_early(side)
    else:
        yield from _of_windows(sides, by_runs)


def _of_windows(sides: tuple[Side, Side], by_runs: Between | None) -> Iterator[Reason]:
    """Warm-ups that had not ended, and runs of unequal length."""
    for side in sides:
        unsettled = [side.run_name(subject) for subject in side.subjects if not subject.figures.window.settled]
        if unsettled:
            yield because(codes.TIMES_UNSETTLED, Effect.CAVEAT, side.name, run=", ".join(unsettled))
    if by_runs and by_runs.drift:
        settled = by_runs.value * math.exp(by_runs.drift)
        yield because(codes.WARM_UP_REMAINS, Effect.CAVEAT, "both", settled=settled)
    lengths = [int(subject.steps.steps_covered.sum()) for side in sides for subject in side.subjects]
    if max(lengths) > _LENGTHS * min(lengths):
        yield because(codes.RUN_LENGTHS_DIFFER, Effect.CAVEAT, "both", shortest=min(lengths), longest=max(lengths))


def _read_early(side: Side) -> Iterator[Reason]:
    """A peak that a log prints once is the peak up to that line."""
    for subject in side.subjects:
        at, steps = subject.figures.memory_peak_gib.evidence, subject.steps
        if at is None or steps.memory_gib.given.any() or not len(steps):
            continue
        before = int((steps.source_line < at.line).sum())
        if steps.evidence(0).file == at.file and before < _MOST_OF_IT * len(steps):
            read = {"after": int(steps.step[before - 1]) if before else None, "last": int(steps.step[-1])}
            yield because(codes.MEMORY_READ_EARLY, Effect.CAVEAT, side.name, side=side.called, **read)
            break


def figures_of(metric: Metric, subjects: Sequence[Subject]) -> list[float]:
    figures = (subject.figures.metric(FIGURE_OF[metric]).value for subject in subjects)
    return [value for value in figures if value is not None]
