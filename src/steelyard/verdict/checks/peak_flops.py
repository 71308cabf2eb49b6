"""No run is faster than its GPU: TFLOP/s on the steady window against the dense peak of the precision."""

from collections.abc import Sequence

import numpy as np

from steelyard.reasons import Code
from steelyard.verdict.figures import CPU_HAS_NO_PEAK, GPU_UNKNOWN
from steelyard.verdict.finding import Check, Results
from steelyard.verdict.subject import Subject

CHECK = Check("peak_flops", required=True)
_NARROWER = ("fp4",)
"""Formats that are faster than any we have a peak of, which bounds them from below alone."""
_ACHIEVED = "{observed:,.1f} TFLOP/s a GPU {whose}"


def _unknown_peak(gpu: str, precision: str | None, missing: Sequence[str], **values: object) -> str:
    of = precision or f"its precision ({' and '.join(missing)} not known)"
    return f"the {gpu}'s dense peak in {of} is not known; {_ACHIEVED.format(**values)}"


WITHIN_PEAK = Code("within_peak", f"{_ACHIEVED}, within the {{gpu}}'s dense peak of {{peak:,.1f}}")
"""TFLOP/s per GPU are within the dense peak of the GPU."""
ABOVE_PEAK = Code("above_peak", f"{_ACHIEVED}, above the {{gpu}}'s dense peak of {{peak:,.1f}}")
"""TFLOP/s per GPU are above the dense peak of the GPU, which is impossible."""
WITHIN_BF16_PEAK = Code(
    "within_bf16_peak", f"{_ACHIEVED}, within the {{gpu}}'s bf16 peak of {{peak:,.1f}}, whatever its precision"
)
"""TFLOP/s per GPU are within the bf16 peak of the GPU, so the unknown precision does not matter."""
ABOVE_BF16_PEAK = Code("above_bf16_peak", lambda **values: f"{_unknown_peak(**values)} are above its bf16 peak")
"""TFLOP/s per GPU are above the bf16 peak, and the catalog has no peak of the GPU for the precision used."""
PEAK_UNKNOWN = Code("peak_unknown", _unknown_peak)
"""The catalog has no peak of the GPU for the precision used, or the precision is unknown."""
PEAK_OF_GPU_UNKNOWN = Code("peak_of_gpu_unknown", "{gpu} is not in the catalog of GPUs, so its peak is not known")
"""The GPU is not in the catalog, so its peak is unknown."""
TFLOPS_UNKNOWN = Code("tflops_unknown", lambda why, **_: f"TFLOP/s are not known: {why.message if why else None}")
"""TFLOP/s per GPU are unknown, for the reason shown."""
TFLOPS_NOT_LOGGED = Code("tflops_not_logged", "the log gives no TFLOP/s, and the model is not known")
"""The log contains no TFLOP/s, and they cannot be computed because the model is unknown."""


def check(subject: Subject) -> Results:
    peak, gpu, figure = subject.peak_tflops, subject.gpu, subject.figures.tflops_per_gpu
    achieved, evidence = figure.value, figure.evidence
    name, narrower = subject.run.manifest.platform.gpu_name, subject.precision in _NARROWER
    reported = subject.steps.reported_tflops_per_gpu.given.any()
    values = {"whose": "as reported" if figure.reported else "by our formula", "gpu": gpu.name if gpu else name}
    if subject.on_cpu:
        yield CHECK.not_applicable(CPU_HAS_NO_PEAK)
    elif name is None:
        yield CHECK.not_applicable(GPU_UNKNOWN)
    elif gpu is None:
        yield CHECK.unknown(PEAK_OF_GPU_UNKNOWN, achieved, gpu=name)
    elif achieved is None and not reported and subject.model is None:
        yield CHECK.not_applicable(TFLOPS_NOT_LOGGED)
    elif achieved is None or not np.isfinite(achieved):
        yield CHECK.unknown(TFLOPS_UNKNOWN, None, peak, why=figure.reason)
    elif peak is not None or (achieved > max(gpu.bf16_tflops, gpu.fp8_tflops or 0.0) and not narrower):
        bound, codes = peak or max(gpu.bf16_tflops, gpu.fp8_tflops or 0.0), (WITHIN_PEAK, ABOVE_PEAK)
        yield CHECK.judged(achieved <= bound, codes, achieved, f"<= {bound}", evidence, peak=bound, **values)
    elif subject.foreign and (subject.precision is None or narrower) and achieved <= gpu.bf16_tflops:
        bound = gpu.bf16_tflops
        yield CHECK.passed(WITHIN_BF16_PEAK, achieved, f"<= {bound}", evidence, peak=bound, **values)
    else:
        missing = tuple(key for key in ("precision.dtype", "precision.fp8") if not subject.known(key)[0])
        details = {"precision": subject.precision, "missing": missing, **values}
        if subject.precision is not None and not narrower and achieved > gpu.bf16_tflops:
            yield CHECK.failed(ABOVE_BF16_PEAK, achieved, f"<= {gpu.bf16_tflops}", evidence, **details)
        else:
            yield CHECK.unknown(PEAK_UNKNOWN, achieved, None, evidence, **details)
