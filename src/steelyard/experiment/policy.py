"""The effect of a key that differs between two runs on each comparison: it blocks, is a caveat, or does not matter."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any


class Metric(StrEnum):
    THROUGHPUT = "throughput"
    MEMORY = "memory"
    FLOPS = "flops"
    CONVERGENCE = "convergence"


class Effect(StrEnum):
    BLOCKS = "blocks"
    QUALIFIES = "qualifies"
    UNKNOWN = "unknown"
    """Whether the difference matters is unknown, such as between two paths of one corpus."""


RATES = (Metric.THROUGHPUT, Metric.MEMORY, Metric.FLOPS)
"""Memory and FLOPs have the same requirements as throughput."""

Effects = Mapping[Metric, Effect]


@dataclass(frozen=True, slots=True)
class Policy:
    """Part of a key's type annotation."""

    rates: Effect | None = None
    convergence: Effect | None = None
    memory: Effect | None = None
    """The effect on memory, if it is stronger than on the other rates."""
    unit: str | None = None

    def counted_in(self, unit: str) -> "Policy":
        """The same policy for a value with a unit."""
        return replace(self, unit=unit)

    @property
    def effects(self) -> Effects:
        effects = dict.fromkeys(RATES, self.rates) | {Metric.CONVERGENCE: self.convergence}
        effects[Metric.MEMORY] = self.memory or self.rates
        return {metric: effect for metric, effect in effects.items() if effect is not None}


@dataclass(frozen=True, slots=True)
class Before:
    """The value of a key in runs that were recorded before the key existed; given next to its policy."""

    value: Any


_BLOCKS, _QUALIFIES = Effect.BLOCKS, Effect.QUALIFIES

FREE = Policy()
JOB = Policy(_BLOCKS, _BLOCKS)
"""A different job: neither speed nor convergence can be compared."""
ALGORITHM = Policy(None, _BLOCKS)
"""Changes convergence, not speed."""
LAYOUT = Policy(_QUALIFIES, _QUALIFIES)
"""How the job is split over GPUs; each platform may do this differently."""
ARITHMETIC = Policy(_BLOCKS, _QUALIFIES)
"""Number formats and recomputation: a different amount of work; convergence differs only by rounding."""
CURVE = Policy(None, _QUALIFIES)
"""May change convergence, not speed."""
SITE = Policy(_QUALIFIES)
"""How the hosts are set up."""
OVERHEAD = Policy(_QUALIFIES)
"""Work in addition to training."""
TRAINED = Policy(_QUALIFIES, _BLOCKS)
"""Changes convergence, and the work a little."""
STATE = Policy(_QUALIFIES, None, memory=_BLOCKS)
"""Where optimizer state is stored; affects mainly memory."""
STATE_FORMAT = Policy(_QUALIFIES, _QUALIFIES, memory=_BLOCKS)
"""The formats of optimizer state."""


def words(policy: Policy) -> str:
    """The effect of a difference, for the reference pages."""
    effects = policy.effects
    if not effects:
        return "free"
    by_effect: dict[Effect, list[str]] = {}
    for metric, effect in effects.items():
        by_effect.setdefault(effect, []).append(metric.value)
    names = {Effect.BLOCKS: "blocks", Effect.QUALIFIES: "caveat for", Effect.UNKNOWN: "unknown for"}
    return "; ".join(
        f"{names[effect]} {'all' if len(metrics) == len(Metric) else ', '.join(metrics)}"
        for effect, metrics in sorted(by_effect.items())
    )
