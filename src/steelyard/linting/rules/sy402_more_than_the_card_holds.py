"""The run needs more memory than the card has.

Why: weights, gradients and optimizer state cannot be smaller than their arithmetic, so the job ends out of memory;
where only the activations are too many, the estimate may be a little high, and it is a warning.
Fix: share the model over more GPUs, recompute activations, or take a smaller micro-batch.
"""

from collections.abc import Iterator
from dataclasses import replace

from steelyard import accounting
from steelyard.configs.suite.keys import JAX
from steelyard.experiment import Experiment
from steelyard.frameworks.cases import expected_memory
from steelyard.frameworks.registry import facts
from steelyard.linting.rule import Case, Problems, Rule

RULE = Rule("SY402", "error")

Change = tuple[str, Experiment, int]
"""What to type, what is then trained, and on how many nodes."""


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
    yield replace(RULE, severity="error" if certain else "warning").problem(
        case,
        "training.micro_batch_size" if not certain else "parallelism.tensor_parallel_size",
        message=f"the run needs {memory.total:.1f} GiB a GPU ({parts})",
        fix=_fitting(case, gpu.usable_gib) or "a smaller model, a larger card, or more GPUs to share it",
        value=round(memory.total, 1),
        expected=f"at most the {gpu.usable_gib} GiB of the {gpu.name}",
    )


def _fitting(case: Case, limit: float) -> str | None:
    """The first change after which the estimate fits, with what it then is."""
    for words, experiment, nodes in _changes(case):
        placement = replace(case.placement, nodes=nodes)
        if not accounting.holds(experiment, placement.world_size):
            continue
        changed = replace(case, resolved=replace(case.resolved, experiment=experiment), placement=placement)
        total = expected_memory(changed).total
        if total <= limit:
            return f"{words}, which needs {total:.1f} GiB"
    return None


def _changes(case: Case) -> Iterator[Change]:
    experiment, nodes = case.resolved.experiment, case.placement.nodes
    less = experiment
    if experiment.training.recompute != "full":
        less = _with(experiment, "training", recompute="full")
        yield "--set training.recompute=full", less, nodes
    micro = experiment.training.micro_batch_size
    while micro > 1 and not micro % 2:
        micro //= 2
        words = f"--set training.micro_batch_size={micro}"
        yield words, _with(experiment, "training", micro_batch_size=micro), nodes
        yield f"{words} --set training.recompute=full", _with(less, "training", micro_batch_size=micro), nodes
    for tensor in (2, 4, 8):
        divides = (
            not experiment.model.num_attention_heads % tensor and not experiment.model.num_key_value_heads % tensor
        )
        if divides and tensor > experiment.parallelism.tensor_parallel_size and experiment.parallelism.fsdp_size == 1:
            shared = {"tensor_parallel_size": tensor, "data_parallel_size": None}
            words = f"--set parallelism.tensor_parallel_size={tensor}"
            yield words, _with(experiment, "parallelism", **shared), nodes
            yield f"{words} --set training.recompute=full", _with(less, "parallelism", **shared), nodes
    yield from _sharded(case)
    if case.reading.family == JAX:  # whose batch and sharding follow the nodes
        for times in (2, 4, 8, 16):
            larger = _with(experiment, "training", global_batch_size=experiment.training.global_batch_size * times)
            larger = _with(larger, "parallelism", fsdp_size=experiment.parallelism.fsdp_size * times)
            yield f"--nodes {nodes * times}", _with(larger, "parallelism", data_parallel_size=None), nodes * times


def _sharded(case: Case) -> Iterator[Change]:
    """Weights shared over the data-parallel ranks, where the framework does that."""
    experiment, sizes = case.resolved.experiment, case.resolved.experiment.parallelism
    replicas = accounting.data_parallel_size(sizes, case.placement.world_size) or 1
    able = facts(case.resolved.platform.framework).shards_weights
    if able and case.resolved.platform.script is None and sizes.fsdp_size == 1 and replicas > 1:
        words = f"--set parallelism.fsdp_size={replicas} --set parallelism.distributed_optimizer=false"
        shared = _with(experiment, "parallelism", fsdp_size=replicas, distributed_optimizer=False)
        yield words, shared, case.placement.nodes
        full = _with(shared, "training", recompute="full")
        yield f"{words} --set training.recompute=full", full, case.placement.nodes


def _with(experiment: Experiment, group: str, **values: object) -> Experiment:
    return experiment.model_copy(update={group: getattr(experiment, group).model_copy(update=values)})
