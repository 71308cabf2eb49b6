"""What the runs of a comparison are called on its page."""

from collections.abc import Iterator
from pathlib import Path

from steelyard.comparison import Comparison
from steelyard.records import unstamped
from steelyard.verdict import Subject, Verdict

_MOST_NAMED = 2
"""Runs of a side, in a title."""


def labelled(made: Comparison) -> Iterator[tuple[str, Subject, Verdict]]:
    """Every run with the label its curve carries."""
    names = short_names(made)
    for side in (made.target, made.baseline):
        for subject, verdict in zip(side.subjects, side.verdicts, strict=True):
            name = names[subject.run.directory]
            yield side.name if name == side.name else f"{side.name} ({name})", subject, verdict


def title(made: Comparison) -> str:
    """Both sides by their runs, or where those are many by what holds them and their number."""
    sides, names = (made.target, made.baseline), short_names(made)
    many = {side.name: f"{unstamped(side.label)} ({len(side.subjects)} runs)" for side in sides}
    apart = len(set(many.values())) == len(sides)
    return " against ".join(
        many[side.name]
        if apart and len(side.subjects) > _MOST_NAMED
        else ", ".join(names[one.run.directory] for one in side.subjects)
        for side in sides
    )


def short_names(made: Comparison) -> dict[Path, str]:
    """What each run is called: without its time, where that still tells the runs apart."""
    places = {one.run.directory for side in (made.target, made.baseline) for one in side.subjects}
    full = {place: place.resolve().name for place in places}
    short = {place: unstamped(name) for place, name in full.items()}
    for names in (short, full):
        if len(set(names.values())) == len(places):
            return names
    return {place: str(place) for place in places}
