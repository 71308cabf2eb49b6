"""One batch, every step the same: it is learnt by heart."""

from collections.abc import Iterator

from steelyard.comparison.diagnoses import Cause, Diagnosis, Ending, endings
from steelyard.comparison.tiers import Pair
from steelyard.frameworks.facts import MOCK_DATA_NAMES, MockData
from steelyard.verdict.floors import Collapse, collapse, repeats_a_batch

_FALLEN = 0.5

CODE = Cause(
    "fixed_batch",
    "the {side} learns a fixed batch by heart: its data are fewer sequences than a step takes, or "
    f"{MOCK_DATA_NAMES[MockData.FIXED_BATCH]}, "
    "and its loss falls from {endings[0].course.first:.4g} to {endings[0].course.end:.4g}",
    evidence=lambda endings, **_: (ending.where for ending in endings),
    confirm="train it on data that does not repeat; the loss then stays near its first value",
)
"""A side trains on the same batch at every step."""


def diagnose(pair: Pair) -> Iterator[Diagnosis]:
    for side, ends in endings(pair):
        if all(_by_heart(ending) for ending in ends):
            yield Diagnosis(CODE, side, {"side": side, "endings": ends})


def _by_heart(ending: Ending) -> bool:
    """Where a batch is declared to repeat, half of the loss gone tells; else only a loss that no data would end at."""
    declared = ending.subject.value("data.source") == "fixed_batch" or repeats_a_batch(ending.subject)
    if declared:
        return ending.course.end <= _FALLEN * ending.course.first
    return collapse(ending.subject) == Collapse.FIXED_BATCH
