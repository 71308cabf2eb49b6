"""The GPUs are not a whole number of model replicas.

Why: world = tensor x pipeline x context x data parallel; a remainder leaves GPUs idle or stops the job.
Fix: choose parallel sizes whose product divides nodes x GPUs a node.
"""

from collections.abc import Iterator

from steelyard import accounting
from steelyard.experiment import Problem
from steelyard.experiment.case import Case
from steelyard.linting.rule import Rule

RULE = Rule("SY201", "error")


def check(case: Case) -> Iterator[Problem]:
    parallelism = case.resolved.experiment.parallelism
    world, replica = case.placement.world_size, accounting.model_parallel_size(parallelism)
    if not case.reading.nodes_open and accounting.data_parallel_size(parallelism, world) is None:
        sizes = ("tensor_parallel_size", "pipeline_parallel_size", "context_parallel_size")
        largest = max(sizes, key=lambda key: int(getattr(parallelism, key)))
        yield RULE.problem(
            case,
            f"parallelism.{largest}",
            message=f"tensor x pipeline x context parallel is {replica} and the platform has {world} GPUs",
            fix=f"--set parallelism.{largest}=1",
            value=replica,
            expected=f"a divisor of {world}",
        )
