"""What the verdict on one side does to a comparison."""

from collections.abc import Mapping
from types import MappingProxyType

from steelyard.experiment.keys import KEYS, UNSTATED, blocking
from steelyard.experiment.keys import STATED as STATED_KEYS
from steelyard.experiment.policy import JOB, LAYOUT, RATES, Effect, Effects, Metric, Policy

POLICY = {name: key.policy.effects for name, key in KEYS.items()}
STATED = {name: key.policy.effects for name, key in STATED_KEYS.items()}
PLANNED = {name: key.planned for name, key in STATED_KEYS.items() if key.planned is not UNSTATED}
USUAL = {name: key.usual for name, key in STATED_KEYS.items() if key.usual}

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

__all__ = [
    "OWN_FIGURES",
    "PLANNED",
    "POLICY",
    "RATES",
    "STATED",
    "UNKNOWN_QUALIFIES",
    "USUAL",
    "Effect",
    "Effects",
    "Metric",
    "blocking",
]
