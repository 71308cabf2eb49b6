"""Several runs as one: repeats, fleets, learnt thresholds, trends, scaling, families of jobs."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class CampaignRequest:
    """Where runs go, and what is done with them."""

    out: Path
    name: str | None
    command: list[str]
    """What was typed, for the record."""
    judges: bool = True
