"""What the verdict on one side does to a comparison."""

from collections.abc import Mapping
from types import MappingProxyType

from steelyard.experiment.policy import JOB, LAYOUT, Effect, Effects, Policy

OWN_FIGURES: Mapping[str, Effects] = MappingProxyType(
    {
        "throughput_identity": Policy(Effect.BLOCKS).effects,
        "peak_flops": Policy(Effect.BLOCKS).effects,
        "batch_identity": LAYOUT.effects,
        "world_identity": LAYOUT.effects,
        "plan_identity": JOB.effects,
        "memory_capacity": Policy(memory=Effect.BLOCKS).effects,
        "steps_present": LAYOUT.effects,
        "completed": LAYOUT.effects,
        "loss_finite": LAYOUT.effects,
        "loss_falling": LAYOUT.effects,
        "loss_floor": LAYOUT.effects,
        "skipped_steps": LAYOUT.effects,
        "errors": LAYOUT.effects,
    }
)
"""What a failed finding of one side does: one whose measurements contradict themselves is refused by its own figures.

Declared batch and layout only qualify, since the ratio stands on the tokens that were recorded.
"""

UNKNOWN_QUALIFIES = ("completed", "steps_present", "loss_finite", "throughput_identity")
"""Findings that, not known of a side, are said beside its ratios."""
