"""One side of a comparison: its runs, each judged."""

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from steelyard import records
from steelyard.errors import InputError
from steelyard.records.fleet import load_fleet
from steelyard.verdict import Subject, Verdict, judge


@dataclass(frozen=True, slots=True)
class Side:
    name: Literal["target", "baseline"]
    subjects: tuple[Subject, ...]
    verdicts: tuple[Verdict, ...]
    called: str
    """What sentences call it: `the target`, or what it is."""

    def run_name(self, subject: Subject) -> str:
        return f"{self.called} ({subject.run.directory.resolve().name})"

    @property
    def label(self) -> str:
        """A short name: of its one run, or of the directory that holds these runs and no others."""
        places = [subject.run.directory.resolve() for subject in self.subjects]
        if len(places) == 1:
            return places[0].name
        parent = places[0].parent
        return parent.name if _runs_in(parent) == set(places) else f"{places[0].name} and {len(places) - 1} more"


def _runs_in(directory: Path) -> set[Path]:
    """The runs that a directory stands for: of a fleet the latest of each host, else all that are in it."""
    if os.path.lexists(directory / records.FLEET):
        with suppress(InputError):  # one that cannot be read is a directory like any other
            return {run.directory.resolve() for run in load_fleet(directory).runs() if run is not None}
    return {place.resolve() for place in records.runs_under(directory)}


def side(name: Literal["target", "baseline"], subjects: tuple[Subject, ...], called: str | None = None) -> Side:
    return Side(name, subjects, tuple(judge(subject) for subject in subjects), called or f"the {name}")


def shared_hosts(subjects: Sequence[Subject]) -> tuple[str, ...] | None:
    """The hosts that all of these runs were made on; None where they differ, or are not known."""
    places = {tuple(sorted(subject.run.manifest.hosts)) for subject in subjects}
    return (places.pop() or None) if len(places) == 1 else None
