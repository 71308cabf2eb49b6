"""Heads, layers or the sequence do not divide into their parallel sizes.

Why: a tensor rank holds whole heads, a pipeline stage whole layers, a context rank an equal part of the sequence.
Fix: choose sizes that divide the model.
"""

from collections.abc import Iterator

from steelyard.experiment import Problem
from steelyard.experiment.case import Case
from steelyard.linting.rule import Rule

RULE = Rule("SY301", "error")


def check(case: Case) -> Iterator[Problem]:
    experiment = case.resolved.experiment
    sizes = experiment.parallelism
    for key, size, what, count in (
        ("tensor_parallel_size", sizes.tensor_parallel_size, "attention heads", experiment.model.num_attention_heads),
        ("pipeline_parallel_size", sizes.pipeline_parallel_size, "layers", experiment.model.num_layers),
        (
            "context_parallel_size",
            sizes.context_parallel_size,
            "tokens a sequence",
            experiment.training.sequence_length,
        ),
    ):
        if count % size:
            yield RULE.problem(
                case,
                f"parallelism.{key}",
                message=f"parallelism.{key} is {size}",
                fix=f"--set parallelism.{key}=1",
                value=size,
                expected=f"a divisor of {count} ({what})",
            )
