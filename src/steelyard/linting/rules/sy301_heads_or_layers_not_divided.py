"""Attention heads, layers or the sequence do not divide by their parallel size.

Why: a tensor rank needs whole heads, a pipeline stage whole layers, a context rank an equal part of the sequence.
Fix: choose parallel sizes that divide them.
"""

from steelyard.linting.rule import Case, Problems, Rule

RULE = Rule("SY301", "error", may_be_allowed=False)


def check(case: Case) -> Problems:
    model, training = case.resolved.experiment.model, case.resolved.experiment.training
    for key, count, parts in (
        ("tensor_parallel_size", model.num_attention_heads, "attention heads"),
        ("pipeline_parallel_size", model.num_layers, "layers"),
        ("context_parallel_size", training.sequence_length, "tokens per sequence"),
    ):
        size = getattr(case.resolved.experiment.parallelism, key)
        if count % size:
            yield RULE.wrong(case, f"parallelism.{key}", size, f"a divisor of {count} ({parts})", 1)
