"""Attention heads x head_dim differs from hidden_size.

Why: few models are built like this. Usually hidden_size or the heads were changed and head_dim was not.
Fix: set `head_dim` too, or leave it if you intend that.
"""

from steelyard.linting.rule import Case, Problems, Rule

RULE = Rule("SY302", "warning")


def check(case: Case) -> Problems:
    model = case.resolved.experiment.model
    heads, head_dim, hidden = model.num_attention_heads, model.head_dim, model.hidden_size
    if heads * head_dim != hidden:
        note = f" for {heads} heads and a hidden_size of {hidden}"
        yield RULE.wrong(case, "model.head_dim", head_dim, f"{hidden / heads:g}", hidden // heads, note)
