"""One side of a comparison: its runs with their verdicts."""

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
    """Its name in sentences, such as `h100`."""

    def run_name(self, subject: Subject) -> str:
        """The name of a run in sentences."""
        if len(self.subjects) == 1:
            return self.called
        name = subject.run.directory.resolve().name
        return f"{self.called} ({name})" if self.directory else name

    @property
    def directory(self) -> Path | None:
        """Its only run, or the directory of its runs, if the side is called after it."""
        places = [subject.run.directory.resolve() for subject in self.subjects]
        if len(places) == 1:
            return places[0]
        above = {place.parent for place in places}
        name, called = places[0].parent.name, self.called.partition(" (")[0]
        return places[0].parent if len(above) == 1 and called in (name, records.unstamped(name)) else None

    @property
    def label(self) -> str:
        """A short name: the name of its only run, or of the directories that contain exactly these runs."""
        return _name(self.subjects, "{} and {} more")


def names_of(target: Sequence[Subject], baseline: Sequence[Subject]) -> tuple[str, str]:
    """The names of both sides in sentences: without timestamps where they still differ."""
    labels = _name(target, "{} (and {} more)"), _name(baseline, "{} (and {} more)")
    short = records.unstamped(labels[0]), records.unstamped(labels[1])
    if short[0] != short[1]:
        return short
    return labels if labels[0] != labels[1] else (f"{short[0]} (target)", f"{short[1]} (baseline)")


def _name(subjects: Sequence[Subject], several: str) -> str:
    """The name of the only run, or of the directories that contain exactly these runs, or of the first run."""
    places = [subject.run.directory.resolve() for subject in subjects]
    if len(places) == 1:
        return places[0].name
    directories = dict.fromkeys(place.parent for place in places)
    if set().union(*map(_runs_in, directories)) == set(places):
        return " + ".join(dict.fromkeys(directory.name for directory in directories))
    return several.format(places[0].name, len(places) - 1)


def _runs_in(directory: Path) -> set[Path]:
    """The runs of a directory; for a fleet the latest run of each host."""
    if os.path.lexists(directory / records.FLEET):
        with suppress(InputError):  # an unreadable fleet is a directory like any other
            return {run.directory.resolve() for run in load_fleet(directory).runs() if run is not None}
    return {place.resolve() for place in records.runs_under(directory)}


def side(name: Literal["target", "baseline"], subjects: tuple[Subject, ...], called: str | None = None) -> Side:
    return Side(name, subjects, tuple(judge(subject) for subject in subjects), called or f"the {name}")


def shared_hosts(subjects: Sequence[Subject]) -> tuple[str, ...] | None:
    """The hosts that all of these runs used; None where they differ or are unknown."""
    places = {tuple(sorted(subject.run.manifest.hosts)) for subject in subjects}
    return (places.pop() or None) if len(places) == 1 else None
