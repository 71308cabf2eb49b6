"""The same batch at every step: the model memorizes it."""

from collections.abc import Iterator

from steelyard.comparison.diagnoses import Cause, Diagnosis, Ending, endings
from steelyard.comparison.tiers import Pair
from steelyard.frameworks.facts import MOCK_DATA_NAMES, MockData
from steelyard.verdict.floors import Collapse, collapse, repeats_a_batch

_FALLEN = 0.5
_SOURCES = f"the data has fewer sequences than a step needs, or is {MOCK_DATA_NAMES[MockData.FIXED_BATCH]}"

CODE = Cause(
    "fixed_batch",
    "{side} memorized a fixed batch: its loss falls from {endings[0].course.first:.4g} to {endings[0].course.end:.4g}",
    evidence=lambda endings, **_: (*(ending.where for ending in endings), _SOURCES),
    confirm="train on data that does not repeat: the loss should fall much more slowly",
)
"""A side trains on the same batch at every step."""


def diagnose(pair: Pair) -> Iterator[Diagnosis]:
    for side, ends in endings(pair):
        if all(_memorized(ending) for ending in ends):
            yield Diagnosis(CODE, side, {"side": pair.name_of(side), "endings": ends})


def _memorized(ending: Ending) -> bool:
    """For a declared fixed batch, the loss has halved; otherwise it is lower than on any data."""
    declared = ending.subject.value("data.source") == "fixed_batch" or repeats_a_batch(ending.subject)
    if declared:
        return ending.course.end <= _FALLEN * ending.course.first
    return collapse(ending.subject) == Collapse.FIXED_BATCH
