"""The three ratios: throughput speedup, memory usage efficiency, FLOPs utilization."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from steelyard.comparison import between_runs
from steelyard.comparison.between_runs import (
    FEWEST,
    INCONCLUSIVE,
    MARGIN,
    MOST_RUNS,
    Between,
    Words,
    between,
    geometric_mean,
    more_runs,
    vary,
    words,
)
from steelyard.comparison.policy import Metric
from steelyard.comparison.side import Side, one_place
from steelyard.comparison.within_run import LEVEL, METHOD, interval, spread_of
from steelyard.verdict import Subject

SINGLE_RUN = "single-run observation"
UNSETTLED = "observation: step times had not settled"
SAID = {
    Metric.THROUGHPUT: Words("faster", "slower"),
    Metric.MEMORY: Words("needs less", "needs more"),
    Metric.FLOPS: Words("used better", "used worse"),
}


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
    words: str
    method: str | None
    """How low and high were found; None where there are none."""
    target_figure: float
    baseline_figure: float
    notes: tuple[str, ...]
    """What a reader should know of the figures beside the interval."""
    margin: float
    """What is too little to matter."""
    more_runs: int | None
    """About how many more runs a side would decide it."""
    decided: bool
    """Whether the words rest on an interval between runs and are not `inconclusive`."""
    forced: bool = False
    """Whether the contract refuses it, and it is printed because somebody insisted."""


FIGURE_OF = {Metric.THROUGHPUT: "tokens_per_s_per_gpu", Metric.MEMORY: "memory_peak_gib", Metric.FLOPS: "mfu"}
NAME_OF = {
    Metric.THROUGHPUT: "throughput_speedup",
    Metric.MEMORY: "memory_usage_efficiency",
    Metric.FLOPS: "flops_utilization",
}


def missing(metric: Metric, side: Side) -> str | None:
    """Why a side has no figure for a metric."""
    for subject in side.subjects:
        figure = subject.figures.metric(FIGURE_OF[metric])
        if figure.value is None:
            return f"{side.called} ({subject.run.directory.name}) has no {FIGURE_OF[metric]}: {figure.why}"
    return None


def ratio(metric: Metric, target: Side, baseline: Side, margin: float = MARGIN, said: Words | None = None) -> Ratio:
    """A ratio whose figures are known on both sides; geometric means where a side has several runs."""
    figures = [figures_of(metric, side.subjects) for side in (target, baseline)]
    over = [1 / value for value in figures[0]], [1 / value for value in figures[1]]
    made = over if metric == Metric.MEMORY else figures  # less memory is better
    ours, theirs = (geometric_mean(side) for side in figures)
    value, counts = geometric_mean(made[0]) / geometric_mean(made[1]), (len(figures[0]), len(figures[1]))
    found = between(made[0], made[1], counted=metric == Metric.MEMORY)
    around, method = (found.interval(), between_runs.METHOD) if found else (None, None)
    if counts == (1, 1) and metric != Metric.MEMORY:  # a peak is one figure: it has no spread inside a run
        around = interval(value, spread_of(target.subjects[0]), spread_of(baseline.subjects[0]))
        method = METHOD if around else None
    unsettled = () if metric == Metric.MEMORY else tuple(_unsettled(target, baseline))
    decided = found is not None and not _is_open(found, margin) and not unsettled
    return Ratio(
        value=value,
        low=around[0] if around else None,
        high=around[1] if around else None,
        interval="within_run" if counts == (1, 1) else "runs",
        level=LEVEL,
        target_runs=counts[0],
        baseline_runs=counts[1],
        words=UNSETTLED if unsettled and found else _words(said or SAID[metric], counts, found, margin),
        method=method,
        target_figure=ours,
        baseline_figure=theirs,
        notes=(
            *(() if metric == Metric.MEMORY else _still(zip((target, baseline), figures, strict=True))),
            *_scope(target, baseline, counts),
            *unsettled,
            *(_read_early(target, baseline) if metric == Metric.MEMORY else ()),
        ),
        margin=margin,
        more_runs=more_runs(found, min(counts), margin) if found and _is_open(found, margin) else None,
        decided=decided,
    )


def _words(spelt: Words, counts: tuple[int, int], found: Between | None, margin: float) -> str:
    if counts == (1, 1):
        return SINGLE_RUN
    if found is None:
        if min(counts) >= FEWEST:
            return f"observation, {counts[0]} and {counts[1]} runs: no interval between runs that vary in nothing"
        word = SINGLE_RUN if min(counts) == 1 else "observation"
        return f"{word}, {counts[0]} and {counts[1]} runs: {FEWEST} a side give an interval"
    said = words(found, spelt, margin)
    if said != INCONCLUSIVE:
        return said
    more = more_runs(found, min(counts), margin)
    if more is None:
        return f"{INCONCLUSIVE}, and more than {MOST_RUNS} runs a side would be needed"
    return f"{INCONCLUSIVE}, about {more} more run{'s' * (more != 1)} a side"


def _is_open(found: Between, margin: float) -> bool:
    return words(found, SAID[Metric.THROUGHPUT], margin) == INCONCLUSIVE


def _still(sides: Iterable[tuple[Side, Sequence[float]]]) -> Iterator[str]:
    for side, figures in sides:
        if len(figures) > 1 and not vary(figures):
            yield f"the runs of {side.called} vary in nothing: their figures are rounded, or they are copies"


def _scope(target: Side, baseline: Side, counts: tuple[int, int]) -> Iterator[str]:
    if (when := _one_after_the_other(target, baseline)) is not None:
        yield when
    if min(counts) == 1:
        return
    scopes = {side.called: scope for side in (target, baseline) if (scope := one_place(side.subjects)) is not None}
    if len(scopes) == 2 and len(set(scopes.values())) == 1:
        scopes = {"both sides": scopes.popitem()[1]}
    for whose, scope in scopes.items():
        yield f"all runs of {whose} {scope}"


def _one_after_the_other(target: Side, baseline: Side) -> str | None:
    """On the same hosts, whatever changed there between the two sides is in the ratio, unless they took turns."""
    ours, theirs = ([subject.run.manifest for subject in side.subjects] for side in (target, baseline))
    places = {tuple(sorted(manifest.hosts)) for manifest in (*ours, *theirs)}
    if len(places) > 1 or places == {()}:
        return None
    first, second = sorted((ours, theirs), key=lambda side: min(one.began for one in side))
    if max(one.ended or one.began for one in first) > min(one.began for one in second):
        return None
    return "both sides ran on the same hosts one after the other, not in turns: what changed there meanwhile is in it"


def _unsettled(*sides: Side) -> Iterator[str]:
    for side in sides:
        for subject in side.subjects:
            if not subject.figures.window.settled:
                name = subject.run.directory.resolve().name
                yield f"step times of {side.called} ({name}) had not settled"


_MOST_OF_IT = 0.9
"""Of a run's records, before which a reading of memory was early."""


def _read_early(*sides: Side) -> Iterator[str]:
    """A peak that a log prints once is a peak up to there."""
    for side in sides:
        for subject in side.subjects:
            at, steps = subject.figures.memory_peak_gib.evidence, subject.steps
            if at is None or steps.memory_gib.given.any() or not len(steps):
                continue
            before = int((steps.source_line < at.line).sum())
            if steps.evidence(0).file == at.file and before < _MOST_OF_IT * len(steps):
                when = f"after step {steps.step[before - 1]:,}" if before else "before the first step"
                yield f"the memory of {side.called} was read {when} of {steps.step[-1]:,}, and is the peak up to there"
                break


def figures_of(metric: Metric, subjects: Sequence[Subject]) -> list[float]:
    """Those that are known, a run each."""
    found = [subject.figures.metric(FIGURE_OF[metric]).value for subject in subjects]
    return [value for value in found if value is not None]
