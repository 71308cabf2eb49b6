"""One batch, every step the same: it is learnt by heart."""

from collections.abc import Iterator

from steelyard.comparison.diagnoses.diagnosis import Diagnosis, Ending, endings
from steelyard.comparison.tiers import Pair
from steelyard.verdict.floors import Collapse, collapse, repeats_a_batch

CODE = "fixed_batch"
_FALLEN = 0.5


def diagnose(pair: Pair) -> Iterator[Diagnosis]:
    for side, found in endings(pair):
        if all(_by_heart(one) for one in found):
            yield Diagnosis(
                CODE,
                side,
                f"the {side} learns a fixed batch by heart: its data are fewer sequences than a step takes, or "
                f"MaxText's synthetic batch, and its loss falls from {found[0].first:.4g} to {found[0].loss:.4g}",
                tuple(one.where for one in found),
                "train it on data that does not repeat; the loss then stays near its first value",
            )


def _by_heart(one: Ending) -> bool:
    """Where a batch is declared to repeat, half of the loss gone tells; else only a loss that no data would end at."""
    declared = one.subject.value("data.source") == "fixed_batch" or repeats_a_batch(one.subject)
    if declared:
        return one.loss <= _FALLEN * one.first
    return collapse(one.subject) == Collapse.FIXED_BATCH
