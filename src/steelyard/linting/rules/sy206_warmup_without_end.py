"""Warm-up takes at least as long as training.

Why: the learning rate reaches its peak at the last step or never, so the schedule is not the one in the file.
Fix: shorten `warmup_steps`, or train longer.
"""

from steelyard.linting.rule import Case, Problems, Rule

RULE = Rule("SY206", "warning")


def check(case: Case) -> Problems:
    warmup, steps = case.resolved.experiment.training.warmup_steps, case.resolved.experiment.training.steps
    if warmup and warmup >= steps:
        expected = f"fewer than training.steps ({steps})"
        yield RULE.wrong(case, "training.warmup_steps", warmup, expected, steps // 10, f" of {steps} steps")
