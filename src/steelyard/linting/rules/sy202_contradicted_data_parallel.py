"""A given `data_parallel_size` contradicts the GPUs and the other parallel sizes.

Why: it is derived; a copy that disagrees means the file was written for another cluster.
Fix: remove it, or correct what it contradicts.
"""

from collections.abc import Iterator

from steelyard import accounting
from steelyard.experiment import Problem
from steelyard.experiment.case import Case
from steelyard.linting.rule import Rule

RULE = Rule("SY202", "error")


def check(case: Case) -> Iterator[Problem]:
    parallelism, world = case.resolved.experiment.parallelism, case.placement.world_size
    given, derived = parallelism.data_parallel_size, accounting.data_parallel_size(parallelism, world)
    if given is not None and derived is not None and given != derived:
        yield RULE.problem(
            case,
            "parallelism.data_parallel_size",
            message=f"parallelism.data_parallel_size is {given}",
            fix=f"--set parallelism.data_parallel_size={derived}",
            value=given,
            expected=f"{derived} ({world} GPUs / {accounting.model_parallel_size(parallelism)} a replica)",
        )
