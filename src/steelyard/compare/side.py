"""One side of a comparison: its runs, each judged."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from steelyard.verdict import Subject, Verdict, judge

MOST_NAMED = 3
"""Hosts of a sentence."""


@dataclass(frozen=True, slots=True)
class Side:
    """Target or baseline."""

    name: Literal["target", "baseline"]
    subjects: tuple[Subject, ...]
    verdicts: tuple[Verdict, ...]
    called: str
    """What sentences call it: `the target`, or what it is."""

    @property
    def label(self) -> str:
        """A short name: of its one run, or of the directory that holds all of them."""
        places = [subject.run.directory.resolve() for subject in self.subjects]
        together = {place.parent for place in places}
        return places[0].name if len(places) == 1 or len(together) > 1 else together.pop().name


def side(name: Literal["target", "baseline"], subjects: tuple[Subject, ...], called: str | None = None) -> Side:
    """Judge the runs of a side."""
    return Side(name, subjects, tuple(judge(subject) for subject in subjects), called or f"the {name}")


def one_place(subjects: Sequence[Subject]) -> str | None:
    """Repeats on one node speak for that node, and on one set of nodes for those; None where they were made on more."""
    places = {tuple(sorted(subject.run.manifest.hosts)) for subject in subjects}
    hosts = places.pop()
    if places or not hosts:
        return None
    more = f" and {len(hosts) - MOST_NAMED} more" if len(hosts) > MOST_NAMED else ""
    scope = "that node" if len(hosts) == 1 else "those nodes"
    return f"were made on {', '.join(hosts[:MOST_NAMED])}{more}: they speak for {scope}"
