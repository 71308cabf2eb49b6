"""The GPUs do not form a whole number of model replicas.

Why: world size = tensor x pipeline x context x data parallel. With a remainder, GPUs stay idle or the job stops.
Fix: choose parallel sizes whose product divides nodes x GPUs per node.
"""

from steelyard import accounting
from steelyard.linting.rule import Case, Problems, Rule

RULE = Rule("SY201", "error", may_be_allowed=False)


def check(case: Case) -> Problems:
    parallelism = case.resolved.experiment.parallelism
    world, replica = case.placement.world_size, accounting.model_parallel_size(parallelism)
    if not case.reading.nodes_open and accounting.data_parallel_size(parallelism, world) is None:
        sizes = ("tensor_parallel_size", "pipeline_parallel_size", "context_parallel_size")
        name = max(sizes, key=lambda size: int(getattr(parallelism, size)))
        size, key = getattr(parallelism, name), f"parallelism.{name}"
        others = replica // size
        most = min(size, world // others)  # a size may be any number; beyond the GPUs none fits
        fitting = next((less for less in range(most, 0, -1) if world % (others * less) == 0), 1)
        message = f"tensor x pipeline x context parallel is {replica}, but the platform has {world} GPUs"
        yield RULE.problem(case, key, message, f"--set {key}={fitting}", replica, f"a divisor of {world}")
