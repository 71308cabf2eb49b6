"""The three ratios: throughput speedup, memory usage efficiency, FLOPs utilization."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

from steelyard.accounting.steady import MIN_STEADY_RECORDS, MIN_STEADY_STEPS
from steelyard.comparison import between_runs, codes
from steelyard.comparison.between_runs import (
    FEWEST,
    MARGIN,
    MOST_RUNS,
    Between,
    Outcome,
    Words,
    between,
    geometric_mean,
    more_runs,
    outcome_of,
    vary,
)
from steelyard.comparison.side import Side, one_place
from steelyard.comparison.within_run import LEVEL, METHOD, interval, spread_of
from steelyard.experiment.policy import Metric
from steelyard.reasons import Code, Effect, Reason, SideName
from steelyard.verdict import Subject

SAID = {
    Metric.THROUGHPUT: Words("faster", "slower"),
    Metric.MEMORY: Words("needs less", "needs more"),
    Metric.FLOPS: Words("used better", "used worse"),
}
FIGURE_OF = {Metric.THROUGHPUT: "tokens_per_s_per_gpu", Metric.MEMORY: "memory_peak_gib", Metric.FLOPS: "mfu"}
NAME_OF = {
    Metric.THROUGHPUT: "throughput_speedup",
    Metric.MEMORY: "memory_usage_efficiency",
    Metric.FLOPS: "flops_utilization",
}
NO_PEAKS = ("xla_in_use",)
"""Kinds of memory that hold no activations yet: neither micro batch nor recomputation would change them."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """Target over baseline, so that above 1 is good for the target; memory is turned round for that."""

    value: float
    low: float | None
    high: float | None
    interval: str
    """within_run: inside the runs that were made. runs: between runs."""
    level: float
    target_runs: int
    baseline_runs: int
    outcome: Outcome
    method: str | None
    """How low and high were found; None where there are none."""
    target_figure: float
    baseline_figure: float
    notes: tuple[Reason, ...]
    """What a reader should know of the figures, apart from the interval."""
    margin: float
    """What is too little to matter."""
    more_runs: int | None
    """About how many more runs a side would decide it."""
    terms: Words
    """How it is said to be above 1 or below."""
    forced: bool = False
    """Whether the contract refuses it, and it is printed because somebody insisted."""

    @property
    def decided(self) -> bool:
        return self.outcome.decided and not self.forced

    @property
    def words(self) -> str:
        """The outcome as a sentence says it."""
        counts = f"{self.target_runs} and {self.baseline_runs} runs"
        single = "single-run observation"
        match self.outcome:
            case Outcome.SINGLE_RUN:
                return single
            case Outcome.TOO_FEW_RUNS:
                word = single if min(self.target_runs, self.baseline_runs) == 1 else "observation"
                return f"{word}, {counts}: {FEWEST} a side give an interval"
            case Outcome.NO_SPREAD:
                return f"observation, {counts}: no interval between runs that vary in nothing"
            case Outcome.UNSETTLED:
                return "observation: step times had not settled"
            case Outcome.INCONCLUSIVE if self.more_runs is None:
                return f"{self.outcome.value}, and more than {MOST_RUNS} runs a side would be needed"
            case Outcome.INCONCLUSIVE:
                return f"{self.outcome.value}, about {self.more_runs} more run{'s' * (self.more_runs != 1)} a side"
        return self.terms.of(self.outcome, self.margin)

    def document(self) -> dict[str, Any]:
        """A ratio in JSON."""
        content = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "terms"}
        return {
            **content,
            "words": self.words,
            "decided": self.decided,
            "notes": [note.message for note in self.notes],
            "caveats": [note.document() for note in self.notes],
        }


def missing(metric: Metric, side: Side) -> Reason | None:
    """Why a side has no figure for a metric."""
    for subject in side.subjects:
        figure = subject.figures.metric(FIGURE_OF[metric])
        if figure.value is None:
            values = {"run": side.run_name(subject), "figure": FIGURE_OF[metric], "why": figure.why}
            return Reason(codes.FIGURE_MISSING, values, Effect.UNKNOWN, side.name)
    return None


def lacking(metric: Metric, sides: Sequence[Side]) -> Iterator[Reason]:
    """What a ratio lacks: it needs a figure of each side, of a rate enough steady steps, and of memory a peak."""
    for side in sides:
        yield from _no_peak(side) if metric == Metric.MEMORY else _unsteady(side)
        if (reason := missing(metric, side)) is not None:
            yield reason


def _unsteady(side: Side) -> Iterator[Reason]:
    for subject in side.subjects:
        window = subject.figures.window
        records, values = int(window.mask.sum()), {"run": side.run_name(subject)}
        if not window.steps and not subject.tells_times:
            yield Reason(codes.TIMES_MISSING, values, Effect.UNKNOWN, side.name)
        elif not window.steps and subject.clock.contradicts:
            clock = {**values, "ratio": subject.clock.ratio}
            yield Reason(codes.CLOCK_CONTRADICTS, clock, Effect.BLOCKS, side.name)
        elif window.steps < MIN_STEADY_STEPS:
            few = {**values, "steps": window.steps, "least": MIN_STEADY_STEPS}
            yield Reason(codes.TOO_FEW_STEADY_STEPS, few, Effect.BLOCKS, side.name)
        elif records < MIN_STEADY_RECORDS:
            few = {**values, "records": records, "least": MIN_STEADY_RECORDS}
            yield Reason(codes.TOO_FEW_STEADY_RECORDS, few, Effect.BLOCKS, side.name)


def _no_peak(side: Side) -> Iterator[Reason]:
    if any(subject.figures.memory_kind in NO_PEAKS for subject in side.subjects):
        yield Reason(codes.MEMORY_BEFORE_TRAINING, {"whose": side.called}, Effect.UNKNOWN, side.name)
    for subject in side.subjects:
        if subject.events_of("oom"):
            yield Reason(codes.OUT_OF_MEMORY, {"run": side.run_name(subject)}, Effect.UNKNOWN, side.name)


def ratio(metric: Metric, target: Side, baseline: Side, margin: float = MARGIN, terms: Words | None = None) -> Ratio:
    """A ratio whose figures are known on both sides; geometric means where a side has several runs."""
    figures = [figures_of(metric, side.subjects) for side in (target, baseline)]
    over = [1 / value for value in figures[0]], [1 / value for value in figures[1]]
    made = over if metric == Metric.MEMORY else figures  # less memory is better
    ours, theirs = (geometric_mean(side) for side in figures)
    value, counts = geometric_mean(made[0]) / geometric_mean(made[1]), (len(figures[0]), len(figures[1]))
    by_runs = between(made[0], made[1], counted=metric == Metric.MEMORY)
    around, method = (by_runs.interval(), between_runs.METHOD) if by_runs else (None, None)
    if counts == (1, 1) and metric != Metric.MEMORY:  # a peak is one figure: it has no spread inside a run
        around = interval(value, spread_of(target.subjects[0]), spread_of(baseline.subjects[0]))
        method = METHOD if around else None
    unsettled = () if metric == Metric.MEMORY else tuple(_unsettled(target, baseline))
    is_open = by_runs is not None and outcome_of(by_runs, margin) == Outcome.INCONCLUSIVE
    return Ratio(
        value=value,
        low=around[0] if around else None,
        high=around[1] if around else None,
        interval="within_run" if counts == (1, 1) else "runs",
        level=LEVEL,
        target_runs=counts[0],
        baseline_runs=counts[1],
        outcome=Outcome.UNSETTLED if unsettled and by_runs else _outcome(counts, by_runs, margin),
        method=method,
        target_figure=ours,
        baseline_figure=theirs,
        notes=(
            *(() if metric == Metric.MEMORY else _still((target, baseline), figures)),
            *_scope(target, baseline, counts),
            *unsettled,
            *(_read_early(target, baseline) if metric == Metric.MEMORY else ()),
        ),
        margin=margin,
        more_runs=more_runs(by_runs, min(counts), margin) if by_runs and is_open else None,
        terms=terms or SAID[metric],
    )


def _outcome(counts: tuple[int, int], by_runs: Between | None, margin: float) -> Outcome:
    if counts == (1, 1):
        return Outcome.SINGLE_RUN
    if by_runs is not None:
        return outcome_of(by_runs, margin)
    return Outcome.NO_SPREAD if min(counts) >= FEWEST else Outcome.TOO_FEW_RUNS


def _note(code: Code, side: SideName, **values: Any) -> Reason:
    return Reason(code, values, Effect.CAVEAT, side)


def _still(sides: Sequence[Side], figures: Sequence[Sequence[float]]) -> Iterator[Reason]:
    for side, values in zip(sides, figures, strict=True):
        if len(values) > 1 and not vary(values):
            yield _note(codes.RUNS_DO_NOT_VARY, side.name, whose=side.called)


def _scope(target: Side, baseline: Side, counts: tuple[int, int]) -> Iterator[Reason]:
    if _one_after_the_other(target, baseline):
        yield _note(codes.NOT_IN_TURNS, "both")
    if min(counts) == 1:
        return
    ours, theirs = (one_place(side.subjects) for side in (target, baseline))
    if ours and ours == theirs:
        yield _note(codes.SAME_HOSTS, "both", whose="both sides", hosts=ours)
        return
    for side, hosts in ((target, ours), (baseline, theirs)):
        if hosts:
            yield _note(codes.SAME_HOSTS, side.name, whose=side.called, hosts=hosts)


def _one_after_the_other(target: Side, baseline: Side) -> bool:
    """On the same hosts, whatever changed there between the two sides is in the ratio, unless they took turns."""
    ours, theirs = ([subject.run.manifest for subject in side.subjects] for side in (target, baseline))
    places = {tuple(sorted(manifest.hosts)) for manifest in (*ours, *theirs)}
    if len(places) > 1 or places == {()}:
        return False
    first, second = sorted((ours, theirs), key=lambda side: min(manifest.began for manifest in side))
    end = max(manifest.ended or manifest.began for manifest in first)
    return end <= min(manifest.began for manifest in second)


def _unsettled(*sides: Side) -> Iterator[Reason]:
    for side in sides:
        for subject in side.subjects:
            if not subject.figures.window.settled:
                run = f"{side.called} ({subject.run.directory.resolve().name})"
                yield _note(codes.TIMES_UNSETTLED, side.name, run=run)


_MOST_OF_IT = 0.9
"""Of a run's records, before which a reading of memory was early."""


def _read_early(*sides: Side) -> Iterator[Reason]:
    """A peak that a log prints once is a peak up to there."""
    for side in sides:
        for subject in side.subjects:
            at, steps = subject.figures.memory_peak_gib.evidence, subject.steps
            if at is None or steps.memory_gib.given.any() or not len(steps):
                continue
            before = int((steps.source_line < at.line).sum())
            if steps.evidence(0).file == at.file and before < _MOST_OF_IT * len(steps):
                after, last = int(steps.step[before - 1]) if before else None, int(steps.step[-1])
                yield _note(codes.MEMORY_READ_EARLY, side.name, whose=side.called, after=after, last=last)
                break


def figures_of(metric: Metric, subjects: Sequence[Subject]) -> list[float]:
    """Those that are known, a run each."""
    found = [subject.figures.metric(FIGURE_OF[metric]).value for subject in subjects]
    return [value for value in found if value is not None]
