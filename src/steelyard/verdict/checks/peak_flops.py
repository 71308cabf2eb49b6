"""No run is faster than its GPU: TFLOP/s on the steady window against the dense peak of the precision."""

from collections.abc import Iterator

import numpy as np

from steelyard.hardware.catalog import Gpu
from steelyard.verdict.finding import Check, Found
from steelyard.verdict.subject import Subject

CHECK = Check("peak_flops", required=True)


def check(subject: Subject) -> Iterator[Found]:
    if subject.on_cpu:
        yield CHECK.not_applicable("a CPU has no peak in the catalog")
        return
    peak, gpu = subject.peak_tflops, subject.gpu
    achieved, evidence = subject.figures.tflops_per_gpu.value, subject.figures.tflops_per_gpu.evidence
    whose = "by our formula"
    if achieved is None:
        reported = subject.steps.reported_tflops_per_gpu
        rows = np.flatnonzero(subject.figures.window.mask & reported.given)
        if len(rows):
            achieved, whose = float(np.median(reported.values[rows])), "as reported"
            evidence = subject.evidence_of_step(int(rows[0]))
    if gpu is None:
        name = subject.run.manifest.platform.gpu_name
        yield CHECK.unknown(f"{name} is not in the catalog of GPUs, so its peak is not known", achieved)
    elif achieved is None or not np.isfinite(achieved):
        yield CHECK.unknown(f"TFLOP/s are not known: {subject.figures.tflops_per_gpu.reason}", None, peak)
    elif peak is None and achieved <= (highest := _highest(subject, gpu)):
        precision = subject.precision or "an unknown precision"
        message = (
            f"the {gpu.name}'s dense peak in {precision} is not known; {achieved:,.1f} TFLOP/s are below {highest}"
        )
        yield CHECK.unknown(message, achieved, None, evidence)
    else:
        bound = peak or _highest(subject, gpu)
        holds = achieved <= bound
        words = "within" if holds else "above"
        message = f"{achieved:,.1f} TFLOP/s a GPU {whose}, {words} the {gpu.name}'s dense peak of {bound:,.1f}"
        yield CHECK.judged(holds, message, achieved, f"<= {bound}", evidence)


def _highest(subject: Subject, gpu: Gpu) -> float:
    """A peak no run can exceed: of fp8 where the precision is not known, else of bf16, which is above fp32."""
    return max(gpu.bf16_tflops, gpu.fp8_tflops or 0.0) if subject.precision is None else gpu.bf16_tflops
