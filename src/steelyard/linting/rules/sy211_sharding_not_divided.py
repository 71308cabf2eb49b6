"""`fsdp_size` does not divide the data-parallel ranks.

Why: the weights of every replica are split over the same number of ranks.
Fix: choose an `fsdp_size` that divides the data-parallel size.
"""

from steelyard import accounting
from steelyard.linting.rule import Case, Problems, Rule

RULE = Rule("SY211", "error", may_be_allowed=False)


def check(case: Case) -> Problems:
    sizes = case.resolved.experiment.parallelism
    replicas = accounting.data_parallel_size(sizes, case.placement.world_size)
    if replicas is None or case.reading.nodes_open:
        return
    ranks = replicas * sizes.context_parallel_size  # ranks of one sequence hold the same weights
    if ranks % sizes.fsdp_size:
        expected = f"a divisor of {ranks}, the ranks that hold the same weights"
        yield RULE.wrong(case, "parallelism.fsdp_size", sizes.fsdp_size, expected, replicas)
