"""What a run reached: its metrics on the steady window, or why one is not known, and its log's clock."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from steelyard.accounting.arrays import Floats, Mask, chosen, row_of
from steelyard.accounting.steady import UNTIMED, SteadyWindow, steady_window
from steelyard.reasons import Code, Reason
from steelyard.records import Column, Event, Evidence, StepTable

if TYPE_CHECKING:
    from steelyard.verdict.subject import Subject

STEPS_UNTIMED = Code("steps_untimed", "{steps:,} steps after the warm-up give no step time")
"""Some steps after the warm-up have no step time."""
CLOCK_CONTRADICTS_STEP_TIMES = Code(
    "clock_contradicts_step_times", "its step times are not those that its log's own clock allows"
)
"""The step times are longer than the time between the log's own timestamps."""
NO_STEADY_STEP = Code("no_steady_step", "no steady step is left after the warm-up")
"""The run has no steps after the warm-up."""
NO_STEP_TIME = Code("no_step_time", "no step gives a {missing}")
"""The record contains no step times."""
_NO_STEP_TIME = Reason(NO_STEP_TIME, {"missing": "step time"})
RATE_NOT_FINITE = Code("rate_not_finite", "tokens over {seconds:.3g} s are no rate")
"""The step times are too small or too large to give a rate."""
GPU_COUNT_UNKNOWN = Code("gpu_count_unknown", "how many GPUs it ran on is not known")
"""The number of GPUs is unknown; set it with --gpus and --nodes."""
STEP_TOKENS_UNKNOWN = Code("step_tokens_unknown", "the tokens of a step are not known")
"""The number of tokens per step is unknown."""
FLOPS_PER_TOKEN_UNKNOWN = Code("flops_per_token_unknown", "its FLOPs per token are not known")
"""FLOPs per token cannot be computed, because the model's dimensions are unknown."""
CPU_HAS_NO_PEAK = Code("cpu_has_no_peak", "a CPU has no peak in the catalog")
"""The run used a CPU, for which there is no peak."""
GPU_UNKNOWN = Code("gpu_unknown", "which GPU it ran on is not known")
"""The GPU is unknown; name it with --gpu."""
GPU_NOT_IN_CATALOG = Code("gpu_not_in_catalog", "{gpu} is not in the catalog of GPUs")
"""The GPU is not in the catalog."""
NO_PEAK_FOR_PRECISION = Code(
    "no_peak_for_precision",
    lambda gpu, precision: (
        f"no dense peak of the {gpu}: {'its precision is not known' if precision is None else f'none for {precision}'}"
    ),
)
"""The catalog has no dense peak of this GPU for the precision used, or the precision is unknown."""
MEMORY_KINDS_DIFFER = Code(
    "memory_kinds_differ", lambda kinds: f"memory was measured in several ways ({', '.join(kinds)})"
)
"""Memory was measured in several ways, which have no common maximum."""
MEMORY_NOT_POSITIVE = Code("memory_not_positive", "memory is {gib} at step {step}")
"""A recorded memory value is zero, negative or not finite."""
NO_MEMORY = Code("no_memory", "no step gives its memory")
"""The record contains no memory values."""

_FEWEST_MOMENTS = 5
_CLOCK_MARGIN = 0.1
_SYSTEMATIC = 0.2
_CLOCK_STANDS = 0.05


@dataclass(frozen=True, slots=True)
class Figure:
    value: float | None
    reason: Reason | None = None
    evidence: Evidence | None = None
    reported: bool = False
    """As the framework said it, since what ours is worked out from is not known."""

    @property
    def why(self) -> str | None:
        return self.reason.message if self.reason else None


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
        figure: Figure = getattr(self, name)
        return figure


def figures(subject: "Subject", steps: StepTable, marks: Mapping[str, Mask], memory_events: Sequence[Event]) -> Figures:
    """The figures of a run, or of one of its nodes by the steps it reported itself."""
    times = steps.step_time_s.values
    if subject.foreign and not np.isfinite(times).any():  # the log's own rates still tell a warm-up from the rest
        with np.errstate(all="ignore"):
            times = 1 / steps.reported_tokens_per_s_per_gpu.values
    window = steady_window(steps.step, steps.steps_covered, times, marks, subject.asked_warmup_steps)
    rate, flops, peak = _rate(subject, steps, window), subject.flops_per_token, subject.peak_tflops
    tflops = _times(rate, flops and flops / 1e12, Reason(FLOPS_PER_TOKEN_UNKNOWN))
    if tflops.value is None:
        tflops = _reported(subject, steps, window, steps.reported_tflops_per_gpu) or tflops
    steady = chosen(steps.step_time_s.values, window.mask)
    memory, kind = _memory(steps, memory_events)
    return Figures(
        window=window,
        tokens_per_s_per_gpu=rate,
        tflops_per_gpu=tflops,
        mfu=_times(tflops, peak and 1 / peak, _why_no_peak(subject)),
        step_time_s=_median_time(steps, window),
        step_time_p95_s=float(np.percentile(steady, 95)) if len(steady) and np.isfinite(steady).all() else None,
        memory_peak_gib=memory,
        memory_kind=kind,
        tokens_per_step=_tokens_per_step(steps, window, subject.planned_tokens_per_step),
    )


def _why_no_peak(subject: "Subject") -> Reason:
    if subject.on_cpu:
        return Reason(CPU_HAS_NO_PEAK)
    if subject.gpu is None:
        name = subject.run.manifest.platform.gpu_name
        return Reason(GPU_NOT_IN_CATALOG, {"gpu": name}) if name else Reason(GPU_UNKNOWN)
    return Reason(NO_PEAK_FOR_PRECISION, {"gpu": subject.gpu.name, "precision": subject.precision})


def _times(figure: Figure, factor: float | None, reason: Reason) -> Figure:
    if figure.value is None:
        return figure
    if not factor:
        return Figure(None, reason)
    return Figure(figure.value * factor, evidence=figure.evidence, reported=figure.reported)


def tokens_of(steps: StepTable, planned_tokens: int | None) -> Floats:
    """Tokens of each step, planned ones where a step does not say; NaN where neither is known."""
    if planned_tokens is None or steps.tokens.given.all():
        return steps.tokens.values
    return np.where(steps.tokens.given, steps.tokens.values, planned_tokens)


def _rate(subject: "Subject", steps: StepTable, window: SteadyWindow) -> Figure:
    if missing := _untimed(window):
        return Figure(None, missing)
    inside, at = window.mask, steps.evidence(int(np.argmax(window.mask)))
    tokens = chosen(tokens_of(steps, subject.planned_tokens_per_step), inside)
    covered, times = chosen(steps.steps_covered, inside), chosen(steps.step_time_s.values, inside)
    unknown = None
    if not (np.isfinite(tokens) & (tokens > 0)).all():
        unknown = Reason(STEP_TOKENS_UNKNOWN)
    elif subject.world_size is None:
        unknown = Reason(GPU_COUNT_UNKNOWN)
    elif not np.isfinite(times).all():
        unknown = Reason(NO_STEP_TIME, {"missing": "time"})
    if unknown is not None:
        return _reported(subject, steps, window, steps.reported_tokens_per_s_per_gpu) or Figure(None, unknown)
    seconds = float((times * covered).sum())
    rate = float((tokens * covered).sum()) / seconds / (subject.world_size or 1)
    why = None if np.isfinite(rate) else Reason(RATE_NOT_FINITE, {"seconds": seconds})
    return Figure(None if why else rate, why, at)


def _reported(subject: "Subject", steps: StepTable, window: SteadyWindow, column: Column) -> Figure | None:
    """A rate as the framework has it, weighted by time; None unless every steady step gives it."""
    inside = window.mask
    if not subject.foreign or not inside.any() or not (column.finite & (column.values > 0))[inside].all():
        return None
    rates, covered = chosen(column.values, inside), chosen(steps.steps_covered, inside)
    weights = chosen(steps.step_time_s.values, inside) * covered
    if not np.isfinite(weights).all():  # without times every step counts by what it took at its own rate
        weights = covered / rates
    value = float((rates * weights).sum() / weights.sum())
    return Figure(value, evidence=steps.evidence(int(np.argmax(inside))), reported=True)


def _untimed(window: SteadyWindow) -> Reason | None:
    if untimed := window.dropped[UNTIMED]:
        return Reason(STEPS_UNTIMED, {"steps": untimed})
    if window.steps:
        return None
    if window.dropped.get("artefact"):
        return Reason(CLOCK_CONTRADICTS_STEP_TIMES)
    return Reason(NO_STEADY_STEP) if window.dropped["warm-up"] else _NO_STEP_TIME


def _median_time(steps: StepTable, window: SteadyWindow) -> Figure:
    missing = _untimed(window)
    times = chosen(steps.step_time_s.values, window.mask)
    if not missing and not np.isfinite(times).all():
        missing = _NO_STEP_TIME
    if missing:
        return Figure(None, missing)
    median = float(np.median(times))
    away = times - median
    nearest = int(np.argmin(np.abs(away, out=away)))
    return Figure(median, evidence=steps.evidence(row_of(window.mask, nearest)))


_PREFERRED = ("torch_reserved_peak", "device_used", "torch_allocated_peak")


def _memory(steps: StepTable, events: Sequence[Event]) -> tuple[Figure, str | None]:
    """The maximum over all steps; kinds of measurement that differ have no common maximum."""
    given = steps.memory_gib.given
    if not given.any():
        return _memory_of_events(events)
    if len(steps.memory_kinds) > 1:
        return Figure(None, Reason(MEMORY_KINDS_DIFFER, {"kinds": steps.memory_kinds})), None
    kind = steps.memory_kinds[0] if steps.memory_kinds else None
    wrong = np.flatnonzero(given & ~(steps.memory_gib.finite & (steps.memory_gib.values > 0)))
    if len(wrong):
        row = int(wrong[0])
        values = {"gib": float(steps.memory_gib.values[row]), "step": int(steps.step[row])}
        return Figure(None, Reason(MEMORY_NOT_POSITIVE, values), steps.evidence(row)), kind
    row = int(np.nanargmax(steps.memory_gib.values))
    return Figure(float(steps.memory_gib.values[row]), evidence=steps.evidence(row)), kind


def _memory_of_events(events: Sequence[Event]) -> tuple[Figure, str | None]:
    """The highest reading of the kind that says most: of several kinds the one a comparison wants."""
    readings = [(gib, event.text("kind"), event) for event in events if (gib := event.number("gib")) is not None]
    if not readings:
        return Figure(None, Reason(NO_MEMORY)), None
    kinds = list(dict.fromkeys(kind for _, kind, _ in readings))
    kind = next((kind for kind in _PREFERRED if kind in kinds), kinds[0])
    most, _, event = max((reading for reading in readings if reading[1] == kind), key=lambda reading: reading[0])
    return Figure(float(most), evidence=event.source), kind


def _tokens_per_step(steps: StepTable, window: SteadyWindow, planned_tokens: int | None) -> int | None:
    inside = window.mask if window.mask.any() else np.ones(len(steps), dtype=np.bool_)
    given = chosen(steps.tokens.values, steps.tokens.given & inside)
    if not len(given):
        return planned_tokens
    return int(given[0]) if np.isfinite(given[0]) and (given == given[0]).all() else None


@dataclass(frozen=True, slots=True)
class Clock:
    artefacts: Mask
    """Records whose steps are stated to take longer than passed between them and the record before."""
    ratio: float | None
    """Time that passed over time that is said, over all records; None where the moments cannot tell."""
    each: float | None = None
    """The same of a step, in the median, which pauses do not move; None too where moments are whole seconds."""

    @property
    def contradicts(self) -> bool:
        """Whether they disagree as a whole, and not by some pauses, so that one of the two is wrong throughout."""
        ratios = [ratio for ratio in (self.ratio, self.each) if ratio is not None]
        return bool(ratios) and all(abs(ratio - 1) > _SYSTEMATIC for ratio in ratios)


def read_clock(steps: StepTable, excused: Mask) -> Clock:
    """Hold each record's time against the moments around it; `excused` are those with an evaluation between."""
    nothing = np.zeros(len(steps), dtype=np.bool_)
    if len(steps) < _FEWEST_MOMENTS or np.isnat(steps.time).sum() > len(steps) - _FEWEST_MOMENTS:
        return Clock(nothing, None)
    passed = np.diff(steps.time) / np.timedelta64(1, "s")  # NaN where a moment is missing
    stated = steps.step_time_s.values[1:] * steps.steps_covered[1:]
    next_to = np.diff(steps.step) == steps.steps_covered[1:]
    usable = np.isfinite(passed) & np.isfinite(stated) & next_to & ~excused[1:] & (passed >= 0) & (stated > 0)
    if usable.sum() < _FEWEST_MOMENTS or chosen(passed, usable).sum() < _CLOCK_STANDS * chosen(stated, usable).sum():
        return Clock(nothing, None)  # a clock that stands says nothing
    usable &= passed <= 3 * stated + 30.0  # a pause: a restart, or an evaluation nobody told of
    whole = bool((np.round(passed) == passed).all(where=usable))
    late = usable & (stated - passed > (1.0 if whole else 0.01) + _CLOCK_MARGIN * stated)
    kept = usable if late.sum() > usable.sum() / 2 else usable & ~late
    passed, stated = chosen(passed, kept), chosen(stated, kept)
    ratio = float(passed.sum() / stated.sum())
    slack = 1.0 / float(stated.sum()) if whole else 0.0
    each = None if whole else float(np.median(passed / stated, overwrite_input=True))
    clock = Clock(nothing.copy(), ratio if abs(ratio - 1) > slack else 1.0, each)
    clock.artefacts[1:] = late
    if clock.contradicts:
        clock.artefacts[:] = True
    return clock
