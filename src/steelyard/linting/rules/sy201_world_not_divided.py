"""The GPUs are not a whole number of model replicas.

Why: world = tensor x pipeline x context x data parallel; a remainder leaves GPUs idle or stops the job.
Fix: choose parallel sizes whose product divides nodes x GPUs a node.
"""

from steelyard import accounting
from steelyard.linting.rule import Case, Problems, Rule

RULE = Rule("SY201", "error")


def check(case: Case) -> Problems:
    parallelism = case.resolved.experiment.parallelism
    world, replica = case.placement.world_size, accounting.model_parallel_size(parallelism)
    if not case.reading.nodes_open and accounting.data_parallel_size(parallelism, world) is None:
        sizes = ("tensor_parallel_size", "pipeline_parallel_size", "context_parallel_size")
        key = f"parallelism.{max(sizes, key=lambda size: int(getattr(parallelism, size)))}"
        message = f"tensor x pipeline x context parallel is {replica} and the platform has {world} GPUs"
        yield RULE.problem(case, key, message, f"--set {key}=1", replica, f"a divisor of {world}")
