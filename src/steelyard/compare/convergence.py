"""Whether two sides learn alike, by tiers: the first that fails is named. Built so far: the contract tier."""

from collections.abc import Sequence
from dataclasses import dataclass

from steelyard.compare.contract import Clause, Comparability, Ruling

CONTRACT = "contract"


@dataclass(frozen=True, slots=True)
class Tier:
    """One question about two curves, and its answer."""

    tier: str
    status: str
    """pass, fail or unknown."""
    message: str


@dataclass(frozen=True, slots=True)
class Convergence:
    status: str
    """equivalent, not_equivalent, not_comparable or unknown."""
    first_failing_tier: str | None
    tiers: tuple[Tier, ...]


def convergence(found: Ruling, clauses: Sequence[Clause]) -> Convergence:
    """What the contract alone can say; the curves are not compared yet, so nothing is called equivalent."""
    if found.status == Comparability.NOT_COMPARABLE:
        return Convergence("not_comparable", CONTRACT, (Tier(CONTRACT, "fail", found.reasons[0]),))
    if found.status == Comparability.UNKNOWN:
        return Convergence("unknown", None, (Tier(CONTRACT, "unknown", found.reasons[0]),))
    message = f"{len(clauses)} parameters agree in all that blocks; the curves themselves are not compared yet"
    return Convergence("unknown", None, (Tier(CONTRACT, "pass", message),))
