"""Heads x head_dim is not hidden_size.

Why: few models are built so; more often a width was changed beside a preset and the head left as it was.
Fix: give `head_dim` too, or leave it if it is meant.
"""

from collections.abc import Iterator

from steelyard.experiment import Problem
from steelyard.experiment.case import Case
from steelyard.linting.rule import Rule

RULE = Rule("SY302", "warning")


def check(case: Case) -> Iterator[Problem]:
    model = case.resolved.experiment.model
    heads, head_dim, hidden = model.num_attention_heads, model.head_dim, model.hidden_size
    if heads * head_dim != hidden:
        yield RULE.problem(
            case,
            "model.head_dim",
            message=f"model.head_dim is {head_dim} for {heads} heads and a hidden_size of {hidden}",
            fix=f"--set model.head_dim={hidden // heads}",
            value=head_dim,
            expected=f"{hidden / heads:g}",
        )
