"""Megatron's mock data counts 1, 2, 3 …: a model that has learnt to count is left with the ends of documents."""

from collections.abc import Iterator
from typing import Literal

from steelyard.comparison.diagnoses.diagnosis import Diagnosis, Ending, endings
from steelyard.comparison.tiers import Pair
from steelyard.frameworks.facts import UNKNOWN
from steelyard.verdict.floors import COUNTING, NO_TEXT, Collapse, collapse

CODE, DEGENERATE = "counting_data", "degenerate_data"
FLOOR = COUNTING


def diagnose(pair: Pair) -> Iterator[Diagnosis]:
    for side, found in endings(pair):
        kinds = {collapse(one.subject) for one in found}
        if kinds == {Collapse.COUNTING}:
            yield _counting(side, found)
        elif kinds and kinds <= {Collapse.COUNTING, Collapse.BELOW_COUNTING, Collapse.BY_HEART}:
            yield _degenerate(side, found, all_below=kinds == {Collapse.BELOW_COUNTING})


def _counting(side: Literal["target", "baseline"], found: list[Ending]) -> Diagnosis:
    end = min(one.loss for one in found)
    still = " and still falls towards it" if any(one.course.still_falls for one in found) else ""
    learnt = "learnt"
    if all(one.subject.run.manifest.framework == UNKNOWN for one in found):
        learnt = "learnt a batch by heart, or, if its framework is one that counts,"
    return Diagnosis(
        CODE,
        side,
        f"the {side} {learnt} Megatron's counting mock data (1, 2, 3 … to the end of a document), whose floor is "
        f"ln 4,095 / 2,048 = {FLOOR:.5f}: it ends at {end:.3g}{still}; that says nothing of learning text, and no "
        "seed changes it",
        (
            *(one.where for one in found),
            f"its first loss is {found[0].first:.5g}: no text is learnt to {NO_TEXT} nats a token",
        ),
        "look for `mock_data: true` or a missing data path in its configuration",
    )


def _degenerate(side: Literal["target", "baseline"], found: list[Ending], *, all_below: bool) -> Diagnosis:
    end = min(one.course.mean for one in found)
    where = tuple(one.where for one in found)
    if all_below:
        return Diagnosis(
            DEGENERATE,
            side,
            f"the {side}'s data is degenerate: its loss ends at {end:.5f}, below the floor ln 4,095 / 2,048 = "
            f"{FLOOR:.5f} of Megatron's counting data, so its document ends are masked, or it repeats, or is one token",
            where,
            "look at the tokens of one batch, and whether `eod_mask_loss` or a pad token masks document ends",
        )
    return Diagnosis(
        DEGENERATE,
        side,
        f"the {side}'s loss ends at {end:.3g}, where no text ends that is read once: degenerate data, or learnt by "
        "heart",
        (*where, f"its first loss is {found[0].first:.5g}: text is not learnt to {NO_TEXT} nats a token"),
        "look at the tokens of one batch, and how often each is read",
    )
