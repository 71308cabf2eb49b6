"""No run is faster than its GPU: TFLOP/s on the steady window against the dense peak of the precision."""

from collections.abc import Iterator

import numpy as np

from steelyard.verdict.finding import Check, Found
from steelyard.verdict.subject import Subject

CHECK = Check("peak_flops", required=True)
_NARROWER = ("fp4",)
"""Formats that are faster than any we have a peak of, which bounds them from below alone."""


def check(subject: Subject) -> Iterator[Found]:
    if subject.on_cpu:
        yield CHECK.not_applicable("a CPU has no peak in the catalog")
        return
    peak, gpu, figure = subject.peak_tflops, subject.gpu, subject.figures.tflops_per_gpu
    achieved, evidence = figure.value, figure.evidence
    whose = "as reported" if figure.reported else "by our formula"
    name = subject.run.manifest.platform.gpu_name
    foreign = subject.run.manifest.ingested is not None
    narrower = subject.precision in _NARROWER
    reported = subject.steps.reported_tflops_per_gpu.given.any()
    if name is None:
        yield CHECK.not_applicable("which GPU it ran on is not known")
    elif gpu is None:
        yield CHECK.unknown(f"{name} is not in the catalog of GPUs, so its peak is not known", achieved)
    elif achieved is None and not reported and subject.model is None:
        yield CHECK.not_applicable("the log gives no TFLOP/s, and the model is not known")
    elif achieved is None or not np.isfinite(achieved):
        yield CHECK.unknown(f"TFLOP/s are not known: {figure.reason}", None, peak)
    elif peak is not None or (achieved > max(gpu.bf16_tflops, gpu.fp8_tflops or 0.0) and not narrower):
        bound = peak or max(gpu.bf16_tflops, gpu.fp8_tflops or 0.0)
        holds = achieved <= bound
        words = "within" if holds else "above"
        message = f"{achieved:,.1f} TFLOP/s a GPU {whose}, {words} the {gpu.name}'s dense peak of {bound:,.1f}"
        yield CHECK.judged(holds, message, achieved, f"<= {bound}", evidence)
    elif foreign and (subject.precision is None or narrower) and achieved <= gpu.bf16_tflops:
        message = f"{achieved:,.1f} TFLOP/s a GPU {whose}, within the {gpu.name}'s bf16 peak of {gpu.bf16_tflops:,.1f}"
        yield CHECK.passed(f"{message}, whatever its precision", achieved, f"<= {gpu.bf16_tflops}", evidence)
    else:
        missing = [key for key in ("precision.dtype", "precision.fp8") if not subject.known(key)[0]]
        precision = subject.precision or f"its precision ({' and '.join(missing)} not known)"
        message = f"the {gpu.name}'s dense peak in {precision} is not known; {achieved:,.1f} TFLOP/s a GPU {whose}"
        if subject.precision is not None and not narrower and achieved > gpu.bf16_tflops:
            yield CHECK.failed(f"{message} are above its bf16 peak", achieved, f"<= {gpu.bf16_tflops}", evidence)
        else:
            yield CHECK.unknown(message, achieved, None, evidence)
