"""TFLOP/s per GPU on the steady window are within the dense peak of the precision used."""

import shlex
from collections.abc import Sequence

import numpy as np

from steelyard.files import place_of
from steelyard.hardware.catalog import Gpu, nearest_gpu
from steelyard.reasons import Code
from steelyard.verdict.figures import CPU_HAS_NO_PEAK, GPU_UNKNOWN
from steelyard.verdict.finding import Check, Result, Results
from steelyard.verdict.subject import Subject

CHECK = Check("peak_flops", required=True)
_NARROWER = ("fp4",)
"""Formats faster than those in the catalog, whose peaks are only a lower bound for them."""
_BITS = {"fp32": 32, "bf16": 16, "fp16": 16, "fp8": 8, "fp4": 4}
_USUAL = {"precision.dtype": "bf16", "precision.fp8": "null"}
"""Settings that decide the precision, with their usual values."""
_FASTER = 2.0
"""Most times the 16-bit peak that fp8 reaches, on every GPU of the catalog."""
_ACHIEVED = "{observed:,.1f} TFLOP/s per GPU ({source})"


def _peak_of(gpu: str, peak: float, stated_by: str | None, **_: object) -> str:
    return f"the {gpu} peak of {peak:,.1f}{f' (by {stated_by})' if stated_by else ''}"


def _unknown_peak(
    gpu: str, precision: str | None, missing: Sequence[str], run: str, stated_by: str | None, **values: object
) -> str:
    whose = f"from {stated_by}" if stated_by else "in the catalog"
    why = f"no {precision} peak {whose}" if precision else f"{' and '.join(missing)} not recorded"
    fix = f"; add it: steelyard check {run} --gpu-peak {precision}=TFLOPS" if precision in _BITS else ""
    if not precision:
        fix = f"; ingest with {' '.join(f'--set {key}={_USUAL[key]}' for key in missing)}"
    return f"peak of the {gpu} unknown: {why}; measured {_ACHIEVED.format(**values)}{fix}"


WITHIN_PEAK = Code("within_peak", lambda **values: f"{_ACHIEVED.format(**values)}, within {_peak_of(**values)}")
"""TFLOP/s per GPU are within the dense peak of the GPU."""
ABOVE_PEAK = Code(
    "above_peak",
    lambda **values: (
        f"{_ACHIEVED.format(**values)}, above {_peak_of(**values)};"
        " check the GPU's name, the batch size and the step times"
    ),
)
"""TFLOP/s per GPU are above the dense peak of the GPU, which is impossible."""
WITHIN_BF16_PEAK = Code(
    "within_bf16_peak", f"{_ACHIEVED}, within the {{gpu}} {{format}} peak of {{peak:,.1f}} ({{why}})"
)
"""TFLOP/s per GPU are within the bf16 peak of the GPU, so the unknown precision does not matter."""
ABOVE_BF16_PEAK = Code(
    "above_bf16_peak",
    lambda times="", **values: f"{_unknown_peak(**values)}, above {times}the {values['format']} peak",
)
"""TFLOP/s per GPU are above the bf16 peak, and the catalog has no peak of the GPU for the precision used."""
PEAK_UNKNOWN = Code("peak_unknown", _unknown_peak)
"""The peak of the GPU for the precision used is unknown, or the precision is; state the peak with --gpu-peak."""
PEAK_OF_GPU_UNKNOWN = Code(
    "peak_of_gpu_unknown",
    lambda gpu, run, format, near=None, **_: (
        f"{gpu} is not in the GPU catalog, so its peak is unknown; state it: steelyard check {run} --gpu-peak"
        f" {format}=TFLOPS{f' (or --gpu {near}, if it is one)' if near else ''}"
    ),
)
"""The GPU is not in the catalog, so its peak is unknown; state it with --gpu-peak."""
RATE_OF_UNNAMED_GPU = Code(
    "rate_of_unnamed_gpu",
    "GPU not named, so its rate cannot be compared with a peak; name it: steelyard check {run} --gpu NAME"
    " (for a GPU outside the catalog: --gpu-peak {format}=TFLOPS)",
)
"""A rate is known and the GPU is not, so an impossible rate would not be noticed; name the GPU with --gpu."""
TFLOPS_UNKNOWN = Code("tflops_unknown", lambda why, **_: f"TFLOP/s unknown{f': {why.message}' if why else ''}")
"""TFLOP/s per GPU are unknown, for the reason shown."""
TFLOPS_NOT_LOGGED = Code(
    "tflops_not_logged", "no TFLOP/s in the log, and the model is unknown; ingest with --set model.preset=NAME"
)
"""The log contains no TFLOP/s, and they cannot be computed because the model is unknown."""


def check(subject: Subject) -> Results:
    gpu, figure = subject.gpu, subject.figures.tflops_per_gpu
    name, reported = subject.run.manifest.platform.gpu_name, subject.steps.reported_tflops_per_gpu.given.any()
    achieved, values = figure.value, {"run": shlex.quote(place_of(subject.run.directory)), "format": _format(subject)}
    if subject.on_cpu:
        yield CHECK.not_applicable(CPU_HAS_NO_PEAK)
    elif gpu is None and name is None:
        known = _rate_known(subject)
        yield CHECK.unknown(RATE_OF_UNNAMED_GPU, achieved, **values) if known else CHECK.not_applicable(GPU_UNKNOWN)
    elif gpu is None or not gpu.peaks:
        near = nearest_gpu(name) if name else None
        yield CHECK.unknown(PEAK_OF_GPU_UNKNOWN, achieved, gpu=name or "the GPU", near=near, **values)
    elif achieved is None and not reported and subject.model is None:
        yield CHECK.not_applicable(TFLOPS_NOT_LOGGED)
    elif achieved is None or not np.isfinite(achieved):
        yield CHECK.unknown(TFLOPS_UNKNOWN, None, subject.peak_tflops, why=figure.reason)
    else:
        yield _judged(subject, gpu, achieved)


def _judged(subject: Subject, gpu: Gpu, achieved: float) -> Result:
    figure, precision = subject.figures.tflops_per_gpu, subject.precision
    narrower = precision in _NARROWER or (gpu.stated_by is not None and precision == "fp8")
    run, missing = place_of(subject.run.directory), ("precision.dtype", "precision.fp8")
    values = {
        "source": "reported" if figure.reported else "computed",
        "gpu": gpu.name,
        "stated_by": gpu.stated_by,
        "precision": precision,
        "missing": tuple(key for key in missing if not subject.known(key)[0]),
        "run": shlex.quote(run),
        "format": gpu.half_format,
    }
    peak, limit, half = subject.peak_tflops, _limit(gpu, precision), gpu.half_tflops
    if peak is not None or (limit is not None and achieved > limit):
        bound, codes = peak or limit or 0.0, (WITHIN_PEAK, ABOVE_PEAK)
        return CHECK.judged(achieved <= bound, codes, achieved, f"<= {bound}", figure.evidence, peak=bound, **values)
    if subject.foreign and (precision is None or narrower) and achieved <= half:
        why = f"{precision} is faster" if precision else "precision unknown"
        return CHECK.passed(WITHIN_BF16_PEAK, achieved, f"<= {half}", figure.evidence, peak=half, why=why, **values)
    if precision is not None and not narrower and achieved > half > 0:
        return CHECK.failed(ABOVE_BF16_PEAK, achieved, f"<= {half}", figure.evidence, **values)
    if precision not in _NARROWER and achieved > _FASTER * half > 0:
        most, values["times"] = _FASTER * half, "twice "
        return CHECK.failed(ABOVE_BF16_PEAK, achieved, f"<= {most}", figure.evidence, **values)
    return CHECK.unknown(PEAK_UNKNOWN, achieved, None, figure.evidence, **values)


def _limit(gpu: Gpu, precision: str | None) -> float | None:
    """TFLOP/s that the GPU cannot reach in this format: the highest peak of a format that is at least as fast.

    The catalog has every format of a GPU but fp4. A user may state some of them, and then a faster one may be missing.
    """
    if precision in _NARROWER:
        return None
    if gpu.stated_by is None:
        return max(gpu.peaks.values())
    bits = _BITS.get(precision or "fp8", 8)
    return max((peak for name, peak in gpu.peaks.items() if _BITS[name] <= bits), default=None)


def _rate_known(subject: Subject) -> bool:
    figures, steps = subject.figures, subject.steps
    rates = (figures.tokens_per_s_per_gpu, figures.tflops_per_gpu)
    columns = (steps.reported_tokens_per_s_per_gpu, steps.reported_tflops_per_gpu)
    return any(rate.value is not None for rate in rates) or any(column.given.any() for column in columns)


def _format(subject: Subject) -> str:
    """The precision whose peak is asked for."""
    return subject.precision if subject.precision in _BITS else "bf16"
