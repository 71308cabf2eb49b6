"""The run needs more memory than the GPU has.

Why: the size of weights, gradients and optimizer state is exact, so the job runs out of memory. If only the
activations are too large, it is a warning: their estimate may be a little high.
Fix: split the model over more GPUs, recompute activations, or use a smaller micro-batch.
"""

import math
from collections.abc import Iterator
from dataclasses import replace

from steelyard import accounting
from steelyard.configs.cvs.keys import JAX
from steelyard.experiment import Experiment
from steelyard.experiment.problems import OVERSIZED
from steelyard.frameworks.planner import expected_memory
from steelyard.frameworks.registry import facts
from steelyard.linting.rule import Case, Problems, Rule

RULE = Rule(OVERSIZED, "error")

_RECOMPUTE = "--set training.recompute=full"


def check(case: Case) -> Problems:
    gpu, experiment = case.placement.gpu, case.resolved.experiment
    if case.reading.nodes_open or gpu is None or gpu.usable_gib is None:
        return
    if not accounting.holds(experiment, case.placement.world_size):
        return
    memory = expected_memory(case)
    if memory.total <= gpu.usable_gib:
        return
    certain = memory.weights + memory.gradients + memory.optimizer > gpu.usable_gib
    parts = ", ".join(f"{name} {gib:.1f}" for name, gib in memory.components().items())
    rule = RULE if certain else replace(RULE, severity="warning")
    key = "parallelism.tensor_parallel_size" if certain else "training.micro_batch_size"
    message = f"the run needs {memory.total:.1f} GiB per GPU ({parts})"
    fix = _fitting(case, gpu.usable_gib) or "use a smaller model, a larger GPU, or more GPUs"
    expected = f"at most {gpu.usable_gib} GiB, the memory of {gpu.name}"
    yield rule.problem(case, key, message, fix, round(memory.total, 1), expected)


def _fitting(case: Case, limit: float) -> str | None:
    """The first change after which the estimate fits, with the new estimate."""
    for options, experiment, nodes in _changes(case):
        placement = replace(case.placement, nodes=nodes)
        if not accounting.holds(experiment, placement.world_size):
            continue
        changed = replace(case, resolved=replace(case.resolved, experiment=experiment), placement=placement)
        total = expected_memory(changed).total
        if total <= limit:
            return f"{options}, which needs {total:.1f} GiB"
    return None


def _changes(case: Case) -> Iterator[tuple[str, Experiment, int]]:
    """What to type, the changed experiment, and its nodes."""
    experiment, nodes = case.resolved.experiment, case.placement.nodes
    if experiment.training.recompute != "full":
        yield _RECOMPUTE, _with(experiment, "training", recompute="full"), nodes
    for options, changed in _on_these_nodes(case):
        yield options, changed, nodes
        yield f"{options} {_RECOMPUTE}", _with(changed, "training", recompute="full"), nodes
    if case.reading.family == JAX:  # batch and sharding follow the nodes
        for times in (2, 4, 8, 16):
            larger = _with(experiment, "training", global_batch_size=experiment.training.global_batch_size * times)
            sharded = experiment.parallelism.fsdp_size * times
            larger = _with(larger, "parallelism", fsdp_size=sharded, data_parallel_size=None)
            yield f"--nodes {nodes * times}", larger, nodes * times


def _on_these_nodes(case: Case) -> Iterator[tuple[str, Experiment]]:
    """A smaller micro-batch, tensor parallelism, or weights sharded over the data-parallel ranks."""
    experiment, sizes = case.resolved.experiment, case.resolved.experiment.parallelism
    micro = experiment.training.micro_batch_size
    while micro > 1 and not micro % 2:
        micro //= 2
        yield f"--set training.micro_batch_size={micro}", _with(experiment, "training", micro_batch_size=micro)
    heads = math.gcd(experiment.model.num_attention_heads, experiment.model.num_key_value_heads)
    for tensor in (2, 4, 8):
        if not heads % tensor and tensor > sizes.tensor_parallel_size and sizes.fsdp_size == 1:
            shared = _with(experiment, "parallelism", tensor_parallel_size=tensor, data_parallel_size=None)
            yield f"--set parallelism.tensor_parallel_size={tensor}", shared
    replicas = accounting.data_parallel_size(sizes, case.placement.world_size) or 1
    able = facts(case.resolved.platform.framework).shards_weights and case.resolved.platform.script is None
    if able and sizes.fsdp_size == 1 and replicas > 1:
        options = f"--set parallelism.fsdp_size={replicas} --set parallelism.distributed_optimizer=false"
        yield options, _with(experiment, "parallelism", fsdp_size=replicas, distributed_optimizer=False)


def _with(experiment: Experiment, group: str, **values: object) -> Experiment:
    return experiment.model_copy(update={group: getattr(experiment, group).model_copy(update=values)})
