"""The experiment asks for a number format the GPU has no units for.

Why: the job stops, or emulates the format at a fraction of the rate it is judged by.
Fix: choose a format the GPU has.
"""

from steelyard.linting.rule import Case, Problems, Rule

RULE = Rule("SY401", "error")


def check(case: Case) -> Problems:
    fp8, gpu = case.resolved.experiment.precision.fp8, case.placement.gpu
    if fp8 is not None and gpu is not None and gpu.fp8_tflops is None:
        note = f", which the {gpu.name} has no units for"
        yield RULE.wrong(case, "precision.fp8", fp8, "null", "null", note)
