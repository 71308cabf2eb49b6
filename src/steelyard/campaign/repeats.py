"""The order in which the repeats of a measurement are made."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Turn:
    """One run of several."""

    platform: str | None
    """None where the file has one, or none."""
    repeat: int
    """From 1, for each platform."""
    seed: int | None
    """training.seed; None for the experiment's own."""


def in_turns(platforms: Sequence[str | None], seeds: Sequence[int | None]) -> list[Turn]:
    """A repeat a seed, the platforms one after the other in each: A B, B A, A B …

    Which goes first alternates, so that a machine that warms up or fills up favours none of them.
    """
    turns: list[Turn] = []
    for repeat, seed in enumerate(seeds, start=1):
        order = platforms if repeat % 2 else platforms[::-1]
        turns.extend(Turn(platform, repeat, seed) for platform in order)
    return turns
