"""What a key that differs between two runs does to each comparison: it blocks, is a caveat, or is free."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum


class Metric(StrEnum):
    THROUGHPUT = "throughput"
    MEMORY = "memory"
    FLOPS = "flops"
    CONVERGENCE = "convergence"


class Effect(StrEnum):
    BLOCKS = "blocks"
    QUALIFIES = "qualifies"


RATES = (Metric.THROUGHPUT, Metric.MEMORY, Metric.FLOPS)
"""Memory and FLOPs are held to everything that throughput is."""

Effects = Mapping[Metric, Effect]


@dataclass(frozen=True, slots=True)
class Policy:
    """Stands beside a key's type, where the key is declared."""

    rates: Effect | None = None
    convergence: Effect | None = None
    memory: Effect | None = None
    """Where it is more than what holds for the other rates."""
    unit: str | None = None

    def counted_in(self, unit: str) -> "Policy":
        """The same, of a value in a unit."""
        return replace(self, unit=unit)

    @property
    def effects(self) -> Effects:
        effects = dict.fromkeys(RATES, self.rates) | {Metric.CONVERGENCE: self.convergence}
        effects[Metric.MEMORY] = self.memory or self.rates
        return {metric: effect for metric, effect in effects.items() if effect is not None}


_BLOCKS, _QUALIFIES = Effect.BLOCKS, Effect.QUALIFIES

FREE = Policy()
JOB = Policy(_BLOCKS, _BLOCKS)
"""Another job: neither speed nor learning can be compared."""
ALGORITHM = Policy(None, _BLOCKS)
"""Changes what is learnt and no speed."""
LAYOUT = Policy(_QUALIFIES, _QUALIFIES)
"""How the same job is laid out, which each platform may do its own way."""
ARITHMETIC = Policy(_BLOCKS, _QUALIFIES)
"""Number formats and recomputation: another amount of work, learnt alike but for rounding."""
OVERHEAD = Policy(_QUALIFIES)
"""Work beside the training itself."""
TRAINED = Policy(_QUALIFIES, _BLOCKS)
"""Changes what is learnt, and a little of the work."""
STATE = Policy(_QUALIFIES, None, memory=_BLOCKS)
"""Where the optimizer's state lies: a matter of memory first."""
STATE_FORMAT = Policy(_QUALIFIES, _QUALIFIES, memory=_BLOCKS)
"""How wide the optimizer's state is."""


def words(policy: Policy) -> str:
    """What a difference does, for the reference pages."""
    effects = policy.effects
    if not effects:
        return "free"
    by_effect: dict[Effect, list[str]] = {}
    for metric, effect in effects.items():
        by_effect.setdefault(effect, []).append(metric.value)
    spelt = {Effect.BLOCKS: "blocks", Effect.QUALIFIES: "caveat for"}
    return "; ".join(
        f"{spelt[effect]} {'all' if len(metrics) == len(Metric) else ', '.join(metrics)}"
        for effect, metrics in sorted(by_effect.items())
    )
