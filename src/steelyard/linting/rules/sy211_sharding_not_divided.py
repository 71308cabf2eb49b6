"""The ranks that share weights do not divide the data-parallel ranks.

Why: every replica's weights are split over the same number of ranks.
Fix: choose an fsdp_size that divides the data-parallel size.
"""

from collections.abc import Iterator

from steelyard import accounting
from steelyard.experiment import Problem
from steelyard.experiment.case import Case
from steelyard.linting.rule import Rule

RULE = Rule("SY211", "error")


def check(case: Case) -> Iterator[Problem]:
    sizes = case.resolved.experiment.parallelism
    replicas = accounting.data_parallel_size(sizes, case.placement.world_size)
    if replicas is None or case.reading.nodes_open:
        return
    ranks = replicas * sizes.context_parallel_size  # ranks of one sequence hold the same weights
    if ranks % sizes.fsdp_size:
        yield RULE.problem(
            case,
            "parallelism.fsdp_size",
            message=f"parallelism.fsdp_size is {sizes.fsdp_size}",
            fix=f"--set parallelism.fsdp_size={replicas}",
            value=sizes.fsdp_size,
            expected=f"a divisor of {ranks}, the ranks that hold the same weights",
        )
