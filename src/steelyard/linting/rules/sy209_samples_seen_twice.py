"""The run needs more samples than the data has, so samples repeat.

Why: a model can memorize repeated samples. Its loss cannot be compared with the loss of other runs.
Fix: train fewer steps, or use more samples.
"""

from steelyard.experiment.sources import CONFIG
from steelyard.linting.rule import Case, Problems, Rule

RULE = Rule("SY209", "warning")


def check(case: Case) -> Problems:
    training, samples = case.resolved.experiment.training, case.resolved.experiment.data.samples
    steps, batch = training.steps, training.global_batch_size
    if samples is None or case.resolved.sources.get("data.samples") != CONFIG or steps * batch <= samples:
        return
    message = f"data.samples is {samples:,}, but {steps:,} steps of {batch:,} sequences need {steps * batch:,}"
    fix = f"--set training.steps={samples // batch}" if samples >= batch else "use more samples"
    yield RULE.problem(case, "data.samples", message, fix, samples, f"at least {steps * batch:,}")
