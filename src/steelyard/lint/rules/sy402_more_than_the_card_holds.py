"""The run needs more memory than the card has.

Why: weights, gradients and optimizer state cannot be smaller than their arithmetic, so the job ends out of memory;
where only the activations are too many, the estimate may be a little high, and it is a warning.
Fix: share the model over more GPUs, recompute activations, or take a smaller micro-batch.
"""

from collections.abc import Iterator
from dataclasses import replace

from steelyard import accounting
from steelyard.experiment import Problem
from steelyard.lint.rule import Case, Rule

RULE = Rule("SY402", "error")


def check(case: Case) -> Iterator[Problem]:
    from steelyard import frameworks

    gpu, experiment = case.placement.gpu, case.resolved.experiment
    if gpu is None or gpu.usable_gib is None or not accounting.holds(experiment, case.placement.world_size):
        return
    memory = frameworks.expected_memory(case)
    state = memory.weights + memory.gradients + memory.optimizer
    if memory.total <= gpu.usable_gib:
        return
    certain = state > gpu.usable_gib
    parts = ", ".join(f"{name} {gib:.1f}" for name, gib in memory.components().items())
    yield replace(RULE, severity="error" if certain else "warning").problem(
        case,
        "training.micro_batch_size" if not certain else "parallelism.tensor_parallel_size",
        message=f"the run needs {memory.total:.1f} GiB a GPU ({parts})",
        fix="a smaller model, a larger card, or more GPUs to share it"
        if certain
        else "--set training.recompute=full, or a smaller micro-batch",
        value=round(memory.total, 1),
        expected=f"at most the {gpu.usable_gib} GiB of the {gpu.name}",
    )
