"""No run is faster than its GPU: TFLOP/s on the steady window against the dense peak of the precision."""

from collections.abc import Iterator

import numpy as np

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
    elif achieved is None:
        yield CHECK.unknown(f"TFLOP/s are not known: {subject.figures.tflops_per_gpu.reason}", None, peak)
    elif peak is None and achieved <= gpu.bf16_tflops:
        yield CHECK.unknown(f"the {gpu.name}'s dense peak in this precision is not known", achieved, None, evidence)
    else:
        bound = peak or gpu.bf16_tflops
        holds = achieved <= bound
        words = "within" if holds else "above"
        message = f"{achieved:,.1f} TFLOP/s a GPU {whose}, {words} the {gpu.name}'s dense peak of {bound:,.1f}"
        yield CHECK.judged(holds, message, achieved, f"<= {bound}", evidence)
