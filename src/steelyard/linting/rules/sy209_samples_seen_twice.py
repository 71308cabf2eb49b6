"""The run takes more samples than the data have, so it sees some twice.

Why: what repeats can be learned by heart, and the loss of such a run says nothing of another's.
Fix: fewer steps, or more samples.
"""

from collections.abc import Iterator

from steelyard.experiment import Problem
from steelyard.experiment.case import Case
from steelyard.experiment.sources import CONFIG
from steelyard.linting.rule import Rule

RULE = Rule("SY209", "warning")


def check(case: Case) -> Iterator[Problem]:
    experiment = case.resolved.experiment
    samples = experiment.data.samples
    if samples is None or case.resolved.sources.get("data.samples") != CONFIG:
        return
    steps, batch = experiment.training.steps, experiment.training.global_batch_size
    if steps * batch > samples:
        yield RULE.problem(
            case,
            "data.samples",
            message=f"data.samples is {samples:,} and {steps:,} steps of {batch:,} take {steps * batch:,}",
            fix=f"--set training.steps={samples // batch}" if samples >= batch else "more samples",
            value=samples,
            expected=f"at least {steps * batch:,}",
        )
