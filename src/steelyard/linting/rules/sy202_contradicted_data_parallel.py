"""`data_parallel_size` contradicts the GPUs and the other parallel sizes.

Why: it follows from them. A value that disagrees was usually written for another cluster.
Fix: remove it, or correct the values that it contradicts.
"""

from steelyard import accounting
from steelyard.linting.rule import Case, Problems, Rule

RULE = Rule("SY202", "error")


def check(case: Case) -> Problems:
    parallelism, world = case.resolved.experiment.parallelism, case.placement.world_size
    given, derived = parallelism.data_parallel_size, accounting.data_parallel_size(parallelism, world)
    if given is not None and derived is not None and given != derived:
        expected = f"{derived} ({world} GPUs / {accounting.model_parallel_size(parallelism)} GPUs per replica)"
        yield RULE.wrong(case, "parallelism.data_parallel_size", given, expected, derived)
