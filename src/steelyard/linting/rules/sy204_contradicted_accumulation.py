"""A given `gradient_accumulation_steps` contradicts the batch sizes.

Why: it is derived; with a copy that disagrees nobody knows which batch was meant.
Fix: remove it, or correct the batch it contradicts.
"""

from collections.abc import Iterator

from steelyard import accounting
from steelyard.experiment import Problem
from steelyard.experiment.case import Case
from steelyard.linting.rule import Rule

RULE = Rule("SY204", "error")


def check(case: Case) -> Iterator[Problem]:
    training = case.resolved.experiment.training
    replicas = accounting.data_parallel_size(case.resolved.experiment.parallelism, case.placement.world_size)
    given = training.gradient_accumulation_steps
    if given is None or replicas is None:
        return
    derived, ragged = divmod(training.global_batch_size, accounting.sequences_per_wave(training, replicas))
    if not ragged and given != derived:
        yield RULE.problem(
            case,
            "training.gradient_accumulation_steps",
            message=f"training.gradient_accumulation_steps is {given}",
            fix=f"--set training.gradient_accumulation_steps={derived}",
            value=given,
            expected=(
                f"{derived} (global batch {training.global_batch_size} / micro batch {training.micro_batch_size} "
                f"/ {replicas} data parallel)"
            ),
        )
