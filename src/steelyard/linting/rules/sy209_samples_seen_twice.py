"""The run takes more samples than the data have, so it sees some twice.

Why: what repeats can be learned by heart, and the loss of such a run says nothing of another's.
Fix: fewer steps, or more samples.
"""

from steelyard.experiment.sources import CONFIG
from steelyard.linting.rule import Case, Problems, Rule

RULE = Rule("SY209", "warning")


def check(case: Case) -> Problems:
    training, samples = case.resolved.experiment.training, case.resolved.experiment.data.samples
    steps, batch = training.steps, training.global_batch_size
    if samples is None or case.resolved.sources.get("data.samples") != CONFIG or steps * batch <= samples:
        return
    message = f"data.samples is {samples:,} and {steps:,} steps of {batch:,} take {steps * batch:,}"
    fix = f"--set training.steps={samples // batch}" if samples >= batch else "more samples"
    yield RULE.problem(case, "data.samples", message, fix, samples, f"at least {steps * batch:,}")
