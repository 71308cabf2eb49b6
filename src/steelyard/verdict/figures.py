"""What a run reached: its metrics on the steady window, each with where it was read or why it is not known."""

from dataclasses import dataclass

import numpy as np

from steelyard.accounting.steady import SteadyWindow
from steelyard.records import Evidence, StepTable
from steelyard.records.columns import Floats


@dataclass(frozen=True, slots=True)
class Figure:
    """One metric of one run."""

    value: float | None
    reason: str | None = None
    """Why it is not known."""
    evidence: Evidence | None = None


@dataclass(frozen=True, slots=True)
class Figures:
    """The metrics of a run, and how its step times spread."""

    window: SteadyWindow
    tokens_per_s_per_gpu: Figure
    """Tokens over seconds: a ratio of sums, never a mean of rates."""
    tflops_per_gpu: Figure
    """By our causal formula."""
    mfu: Figure
    """Over the dense peak of the precision used."""
    step_time_s: Figure
    """The median."""
    step_time_p95_s: float | None
    memory_peak_gib: Figure
    memory_kind: str | None
    tokens_per_step: int | None
    """As recorded; None where it is not the same at every step of the window, or not given."""

    def metric(self, name: str) -> Figure:
        """A metric by the name thresholds use."""
        found: Figure = getattr(self, name)
        return found


def figures(
    steps: StepTable,
    window: SteadyWindow,
    world_size: int,
    flops_per_token: float | None,
    peak_tflops: float | None,
    peak_reason: str,
    planned_tokens: int | None,
) -> Figures:
    """The figures of one run; `planned_tokens` stands in where the steps do not say theirs."""
    rate = _rate(steps, window, world_size, planned_tokens)
    tflops = _times(rate, flops_per_token and flops_per_token / 1e12, "the model's FLOPs per token are not known")
    times = steps.step_time_s.values[window.mask]
    return Figures(
        window=window,
        tokens_per_s_per_gpu=rate,
        tflops_per_gpu=tflops,
        mfu=_times(tflops, peak_tflops and 1 / peak_tflops, peak_reason),
        step_time_s=_median_time(steps, window),
        step_time_p95_s=float(np.percentile(times, 95)) if len(times) else None,
        memory_peak_gib=_memory(steps),
        memory_kind=steps.memory_kinds[0] if len(steps.memory_kinds) == 1 else None,
        tokens_per_step=_tokens_per_step(steps, window, planned_tokens),
    )


def _times(figure: Figure, factor: float | None, reason: str) -> Figure:
    if figure.value is None:
        return figure
    return Figure(figure.value * factor, evidence=figure.evidence) if factor else Figure(None, reason)


def tokens_of(steps: StepTable, planned_tokens: int | None) -> Floats:
    """Tokens of each step, planned ones where a step does not say; NaN where neither is known."""
    return np.where(steps.tokens.given, steps.tokens.values, np.nan if planned_tokens is None else planned_tokens)


def _rate(steps: StepTable, window: SteadyWindow, world_size: int, planned_tokens: int | None) -> Figure:
    missing = _untimed(window)
    if missing:
        return Figure(None, missing)
    inside, first = window.mask, int(np.argmax(window.mask))
    tokens, covered = tokens_of(steps, planned_tokens)[inside], steps.steps_covered[inside]
    if not (np.isfinite(tokens) & (tokens > 0)).all():
        return Figure(None, "the tokens of a step are not known")
    seconds = float((steps.step_time_s.values[inside] * covered).sum())
    rate = float((tokens * covered).sum()) / seconds / world_size
    if not np.isfinite(rate):
        return Figure(None, f"tokens over {seconds:.3g} s are no rate", steps.evidence(first))
    return Figure(rate, evidence=steps.evidence(first))


def _untimed(window: SteadyWindow) -> str | None:
    if window.untimed:
        return f"{window.untimed:,} steps after the warm-up give no step time"
    if window.steps:
        return None
    return "no steady step is left after the warm-up" if window.dropped["warm-up"] else "no step gives a step time"


def _median_time(steps: StepTable, window: SteadyWindow) -> Figure:
    missing = _untimed(window)
    if missing:
        return Figure(None, missing)
    rows = np.flatnonzero(window.mask)
    times = steps.step_time_s.values[rows]
    median = float(np.median(times))
    return Figure(median, evidence=steps.evidence(int(rows[np.argmin(np.abs(times - median))])))


def _memory(steps: StepTable) -> Figure:
    """The maximum over all steps; kinds of measurement that differ have no common maximum."""
    given = steps.memory_gib.given
    if not given.any():
        return Figure(None, "no step gives its memory")
    if len(steps.memory_kinds) > 1:
        return Figure(None, f"memory was measured in several ways ({', '.join(steps.memory_kinds)})")
    wrong = np.flatnonzero(given & ~(steps.memory_gib.finite & (steps.memory_gib.values > 0)))
    if len(wrong):
        row = int(wrong[0])
        value = steps.memory_gib.values[row]
        return Figure(None, f"memory is {value} at step {steps.step[row]}", steps.evidence(row))
    row = int(np.nanargmax(steps.memory_gib.values))
    return Figure(float(steps.memory_gib.values[row]), evidence=steps.evidence(row))


def _tokens_per_step(steps: StepTable, window: SteadyWindow, planned_tokens: int | None) -> int | None:
    inside = window.mask if window.mask.any() else np.ones(len(steps), dtype=np.bool_)
    given = steps.tokens.values[steps.tokens.given & inside]
    if not len(given):
        return planned_tokens
    return int(given[0]) if np.isfinite(given[0]) and (given == given[0]).all() else None
