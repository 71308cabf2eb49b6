"""The GPU does not support the number format.

Why: the job stops, or emulates the format at a fraction of the expected rate.
Fix: choose a format that the GPU supports.
"""

from steelyard.linting.rule import Case, Problems, Rule

RULE = Rule("SY401", "error", may_be_allowed=False)


def check(case: Case) -> Problems:
    fp8, gpu = case.resolved.experiment.precision.fp8, case.placement.gpu
    if fp8 is not None and gpu is not None and "fp8" not in gpu.peaks:
        note = f", but {gpu.name} does not support FP8"
        yield RULE.wrong(case, "precision.fp8", fp8, "null", "null", note)
