"""One side of a comparison: its runs, each judged."""

from dataclasses import dataclass
from typing import Literal

from steelyard.verdict import Subject, Verdict, judge


@dataclass(frozen=True, slots=True)
class Side:
    """Target or baseline."""

    name: Literal["target", "baseline"]
    subjects: tuple[Subject, ...]
    verdicts: tuple[Verdict, ...]


def side(name: Literal["target", "baseline"], subjects: tuple[Subject, ...]) -> Side:
    """Judge the runs of a side."""
    return Side(name, subjects, tuple(judge(subject) for subject in subjects))
