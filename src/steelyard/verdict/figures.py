"""The metrics of a run on its steady window, reasons for missing ones, and the timestamps of its log."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from steelyard.accounting.arrays import Floats, Mask, chosen, row_of
from steelyard.accounting.flops import missing_dimensions
from steelyard.accounting.steady import UNTIMED, SteadyWindow, steady_window
from steelyard.experiment.absent import not_recorded
from steelyard.frameworks.registry import memory_kind
from steelyard.reasons import Code, Reason
from steelyard.records import Column, Event, Evidence, StepTable

if TYPE_CHECKING:
    from steelyard.verdict.subject import Subject

STEPS_UNTIMED = Code("steps_untimed", "{steps:,} steps after the warm-up have no step time")
"""Some steps after the warm-up have no step time."""
CLOCK_CONTRADICTS_STEP_TIMES = Code("clock_contradicts_step_times", "step times contradict the timestamps of the log")
"""The step times are longer than the time between the log's own timestamps."""
NO_STEADY_STEP = Code("no_steady_step", "no steady steps after the warm-up")
"""The run has no steps after the warm-up."""
NO_STEP_TIME = Code("no_step_time", "step times not recorded")
"""The record contains no step times."""
RATE_NOT_FINITE = Code("rate_not_finite", "a total step time of {seconds:.3g} s gives no valid rate")
"""The step times are too small or too large to give a rate."""
GPU_COUNT_UNKNOWN = Code("gpu_count_unknown", "GPU count unknown; ingest with --gpus N")
"""The number of GPUs is unknown; set it with --gpus and --nodes."""
STEP_TOKENS_UNKNOWN = Code(
    "step_tokens_unknown", lambda missing, **_: not_recorded(missing) if missing else "tokens per step not recorded"
)
"""The number of tokens per step is unknown."""
FLOPS_PER_TOKEN_UNKNOWN = Code(
    "flops_per_token_unknown",
    lambda missing: not_recorded(missing) if missing else "the FLOP formula does not cover this model",
)
"""FLOPs per token are unknown: the model or the sequence length is unknown, or the formula does not cover the model."""
TFLOPS_NOT_REPORTED = Code("tflops_not_reported", "the log reports no TFLOP/s, or not at every steady step")
"""The framework printed no TFLOP/s at some steady step."""
CPU_HAS_NO_PEAK = Code("cpu_has_no_peak", "CPU run: no peak FLOP rate defined")
"""The run used a CPU; the catalog has no peaks of CPUs."""
GPU_UNKNOWN = Code("gpu_unknown", "GPU unknown; name it with steelyard check RUN --gpu NAME")
"""The GPU is unknown; name it with --gpu."""
GPU_NOT_IN_CATALOG = Code("gpu_not_in_catalog", "{gpu} is not in the GPU catalog; state its peak with --gpu-peak")
"""The GPU is not in the catalog; state its peak with --gpu-peak."""
NO_PEAK_FOR_PRECISION = Code(
    "no_peak_for_precision",
    lambda gpu, precision, missing="": (
        f"no {precision} peak of the {gpu} in the catalog" if precision else not_recorded([missing])
    ),
)
"""The catalog has no dense peak of this GPU for the precision used, or the precision is unknown."""
MEMORY_KINDS_DIFFER = Code(
    "memory_kinds_differ", lambda kinds: f"memory measured in several ways ({', '.join(kinds)}), no common maximum"
)
"""Memory was measured in several ways, which have no common maximum."""
MEMORY_NOT_POSITIVE = Code("memory_not_positive", "memory is {gib} GiB at step {step:,}")
"""A recorded memory value is zero, negative or not finite."""
NO_MEMORY = Code("no_memory", "memory not recorded")
"""The record contains no memory values."""

_BATCH, _LENGTH = "training.global_batch_size", "training.sequence_length"
_FEWEST_TIMESTAMPS = 5
_CLOCK_MARGIN = 0.1
_SYSTEMATIC = 0.2
_STOPPED_CLOCK = 0.05


@dataclass(frozen=True, slots=True)
class Figure:
    value: float | None
    reason: Reason | None = None
    evidence: Evidence | None = None
    reported: bool = False
    """Reported by the framework; ours cannot be computed."""

    @property
    def why(self) -> str | None:
        return self.reason.message if self.reason else None


@dataclass(frozen=True, slots=True)
class Figures:
    """The metrics of a run and the spread of its step times."""

    window: SteadyWindow
    tokens_per_s_per_gpu: Figure
    """Total tokens / total seconds, not a mean of rates."""
    tflops_per_gpu: Figure
    """Computed with our causal FLOP formula."""
    reported_tflops_per_gpu: Figure
    """As the framework prints it, by its own formula."""
    mfu: Figure
    """TFLOP/s / dense peak of the precision used."""
    step_time_s: Figure
    """The median."""
    step_time_p95_s: float | None
    memory_peak_gib: Figure
    memory_kind: str | None
    tokens_per_step: int | None
    """As recorded; None if it changes within the window or is not recorded."""

    def metric(self, name: str) -> Figure:
        """A metric by its name in thresholds."""
        figure: Figure = getattr(self, name)
        return figure


def figures(subject: "Subject", steps: StepTable, marks: Mapping[str, Mask], memory_events: Sequence[Event]) -> Figures:
    """The figures of a run, or of one node from the steps that it reported."""
    times = steps.step_time_s.values
    if subject.foreign and not np.isfinite(times).any():  # reported rates show the warm-up too
        with np.errstate(all="ignore"):
            times = 1 / steps.reported_tokens_per_s_per_gpu.values
    window = steady_window(steps.step, steps.steps_covered, times, marks, subject.asked_warmup_steps)
    rate, flops, peak = _rate(subject, steps, window), subject.flops_per_token, subject.peak_tflops
    tflops = _times(rate, flops and flops / 1e12, _why_no_flops(subject))
    reported = _weighted(steps, window, steps.reported_tflops_per_gpu)
    if tflops.value is None and subject.foreign:
        tflops = reported or tflops
    steady = chosen(steps.step_time_s.values, window.mask)
    memory, kind = _memory(steps, memory_events)
    return Figures(
        window=window,
        tokens_per_s_per_gpu=rate,
        tflops_per_gpu=tflops,
        reported_tflops_per_gpu=reported or Figure(None, Reason(TFLOPS_NOT_REPORTED)),
        mfu=_times(tflops if peak else Figure(None, _why_no_peak(subject)), peak and 1 / peak),
        step_time_s=_median_time(steps, window),
        step_time_p95_s=float(np.percentile(steady, 95)) if len(steady) and np.isfinite(steady).all() else None,
        memory_peak_gib=memory,
        memory_kind=kind,
        tokens_per_step=_tokens_per_step(steps, window, subject.planned_tokens_per_step),
    )


def why_no_tokens(subject: "Subject") -> Reason:
    """Why the tokens per step are unknown."""
    return Reason(STEP_TOKENS_UNKNOWN, {"missing": missing_counts(subject, _BATCH, _LENGTH)})


def missing_counts(subject: "Subject", *keys: str) -> tuple[str, ...]:
    """Which of these settings are unknown, as --set takes them."""
    return tuple(f"{key}=N" for key in keys if subject.whole(key) is None)


def _why_no_flops(subject: "Subject") -> Reason:
    dimensions = missing_dimensions(subject.dimensions, subject.padded_vocab_size)
    return Reason(FLOPS_PER_TOKEN_UNKNOWN, {"missing": (*dimensions, *missing_counts(subject, _LENGTH))})


def _why_no_peak(subject: "Subject") -> Reason:
    if subject.on_cpu:
        return Reason(CPU_HAS_NO_PEAK)
    if subject.gpu is None:
        name = subject.run.manifest.platform.gpu_name
        return Reason(GPU_NOT_IN_CATALOG, {"gpu": name}) if name else Reason(GPU_UNKNOWN)
    values = {"gpu": subject.gpu.name, "precision": subject.precision}
    if subject.precision is None:
        values["missing"] = "precision.fp8=null" if subject.known("precision.dtype")[0] else "precision.dtype=bf16"
    return Reason(NO_PEAK_FOR_PRECISION, values)


def _times(figure: Figure, factor: float | None, reason: Reason | None = None) -> Figure:
    if figure.value is None:
        return figure
    if not factor:
        return Figure(None, reason)
    return Figure(figure.value * factor, evidence=figure.evidence, reported=figure.reported)


def tokens_of(steps: StepTable, planned_tokens: int | None) -> Floats:
    """Tokens per step, planned tokens if a step has none; NaN if both are unknown."""
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
        unknown = why_no_tokens(subject)
    elif subject.world_size is None:
        unknown = Reason(GPU_COUNT_UNKNOWN)
    elif not np.isfinite(times).all():
        unknown = Reason(NO_STEP_TIME)
    if unknown is not None:
        reported = _weighted(steps, window, steps.reported_tokens_per_s_per_gpu) if subject.foreign else None
        return reported or Figure(None, unknown)
    seconds = float((times * covered).sum())
    rate = float((tokens * covered).sum()) / seconds / (subject.world_size or 1)
    why = None if np.isfinite(rate) else Reason(RATE_NOT_FINITE, {"seconds": seconds})
    return Figure(None if why else rate, why, at)


def _weighted(steps: StepTable, window: SteadyWindow, column: Column) -> Figure | None:
    """A rate of the framework, weighted by time; None unless all steady steps have it."""
    inside = window.mask
    if not inside.any() or not (column.finite & (column.values > 0))[inside].all():
        return None
    rates, covered = chosen(column.values, inside), chosen(steps.steps_covered, inside)
    weights = chosen(steps.step_time_s.values, inside) * covered
    if not np.isfinite(weights).all():  # without step times, weight each step by the time its own rate implies
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
    return Reason(NO_STEADY_STEP if window.dropped["warm-up"] else NO_STEP_TIME)


def _median_time(steps: StepTable, window: SteadyWindow) -> Figure:
    missing = _untimed(window)
    times = chosen(steps.step_time_s.values, window.mask)
    if not missing and not np.isfinite(times).all():
        missing = Reason(NO_STEP_TIME)
    if missing:
        return Figure(None, missing)
    median = float(np.median(times))
    away = times - median
    nearest = int(np.argmin(np.abs(away, out=away)))
    return Figure(median, evidence=steps.evidence(row_of(window.mask, nearest)))


def _memory(steps: StepTable, events: Sequence[Event]) -> tuple[Figure, str | None]:
    """The maximum over all steps; different kinds of measurement have no common maximum."""
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
    """The highest reading of the preferred kind of measurement."""
    readings = [(gib, event.text("kind"), event) for event in events if (gib := event.number("gib")) is not None]
    if not readings:
        return Figure(None, Reason(NO_MEMORY)), None
    kind = min((kind for _, kind, _ in readings), key=lambda kind: memory_kind(kind).rank)
    most = max(gib for gib, its_kind, _ in readings if its_kind == kind)
    *_, event = (event for gib, its_kind, event in readings if (gib, its_kind) == (most, kind))  # it held until then
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
    """Records whose step time is longer than the time since the previous record."""
    ratio: float | None
    """Time between timestamps / logged step times, over all records; None if the timestamps are too few."""
    each: float | None = None
    """The median of this ratio per step, robust to pauses; None also if timestamps are whole seconds."""

    @property
    def contradicts(self) -> bool:
        """Whether timestamps and step times disagree throughout the run, not only at pauses."""
        ratios = [ratio for ratio in (self.ratio, self.each) if ratio is not None]
        return bool(ratios) and all(abs(ratio - 1) > _SYSTEMATIC for ratio in ratios)


def read_clock(steps: StepTable, excused: Mask) -> Clock:
    """Compare each record's step time with its timestamps; `excused` records follow an evaluation or checkpoint."""
    nothing = np.zeros(len(steps), dtype=np.bool_)
    if len(steps) < _FEWEST_TIMESTAMPS or np.isnat(steps.time).sum() > len(steps) - _FEWEST_TIMESTAMPS:
        return Clock(nothing, None)
    passed = np.diff(steps.time) / np.timedelta64(1, "s")  # NaN if a timestamp is missing
    stated = steps.step_time_s.values[1:] * steps.steps_covered[1:]
    next_to = np.diff(steps.step) == steps.steps_covered[1:]
    usable = np.isfinite(passed) & np.isfinite(stated) & next_to & ~excused[1:] & (passed >= 0) & (stated > 0)
    few = usable.sum() < _FEWEST_TIMESTAMPS
    if few or chosen(passed, usable).sum() < _STOPPED_CLOCK * chosen(stated, usable).sum():
        return Clock(nothing, None)  # too few timestamps, or a clock that does not advance
    usable &= passed <= 3 * stated + 30.0  # a longer time is a pause: a restart, or an evaluation without a log line
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
