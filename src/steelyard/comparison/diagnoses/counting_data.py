"""Megatron's mock data counts 1, 2, 3 …: a model that has learnt to count is left with the ends of documents."""

from collections.abc import Iterator, Sequence

from steelyard.comparison.diagnoses import Cause, Diagnosis, Ending, endings
from steelyard.comparison.tiers import Pair
from steelyard.frameworks.facts import MOCK_DATA_NAMES, UNKNOWN, MockData
from steelyard.reasons import SideName
from steelyard.verdict.floors import COUNTING, NO_TEXT, Collapse, collapse

FLOOR = COUNTING
_NAME = MOCK_DATA_NAMES[MockData.COUNTING]


def _counting(side: SideName, endings: Sequence[Ending]) -> str:
    end = min(ending.course.end for ending in endings)
    still = " and still falls towards it" if any(ending.course.still_falls for ending in endings) else ""
    learnt = "learnt"
    if all(ending.subject.run.manifest.framework == UNKNOWN for ending in endings):
        learnt = "learnt a batch by heart, or, if its framework is one that counts,"
    return (
        f"the {side} {learnt} {_NAME} (1, 2, 3 … to the end of a document), whose floor is "
        f"ln 4,095 / 2,048 = {FLOOR:.5f}: it ends at {end:.3g}{still}; that says nothing of learning text, and no "
        "seed changes it"
    )


def _counting_evidence(side: SideName, endings: Sequence[Ending]) -> Iterator[str]:
    yield from (ending.where for ending in endings)
    yield f"its first loss is {endings[0].course.first:.5g}: no text is learnt to {NO_TEXT} nats a token"


def _degenerate(side: SideName, endings: Sequence[Ending], below_counting: bool) -> str:
    end = min(ending.course.mean for ending in endings)
    if below_counting:
        return (
            f"the {side}'s data is degenerate: its loss ends at {end:.5f}, below the floor ln 4,095 / 2,048 = "
            f"{FLOOR:.5f} of {_NAME}, so its document ends are masked, or it repeats, or is one token"
        )
    why = "degenerate data, or learnt by heart"
    return f"the {side}'s loss ends at {end:.3g}, where no text ends that is read once: {why}"


def _degenerate_evidence(side: SideName, endings: Sequence[Ending], below_counting: bool) -> Iterator[str]:
    yield from (ending.where for ending in endings)
    if not below_counting:
        yield f"its first loss is {endings[0].course.first:.5g}: text is not learnt to {NO_TEXT} nats a token"


def _degenerate_confirm(side: SideName, endings: Sequence[Ending], below_counting: bool) -> str:
    masks = "whether `eod_mask_loss` or a pad token masks document ends"
    return f"look at the tokens of one batch, and {masks if below_counting else 'how often each is read'}"


CODE = Cause(
    "counting_data",
    _counting,
    evidence=_counting_evidence,
    confirm="look for `mock_data: true` or a missing data path in its configuration",
)
"""A side trained on Megatron's mock data, which counts 1, 2, 3 to the end of a document."""
DEGENERATE = Cause("degenerate_data", _degenerate, evidence=_degenerate_evidence, confirm=_degenerate_confirm)
"""A side's loss ends lower than that of any text: its data repeats, or was learnt by heart."""


def diagnose(pair: Pair) -> Iterator[Diagnosis]:
    for side, ends in endings(pair):
        kinds = {collapse(ending.subject) for ending in ends}
        values = {"side": side, "endings": ends}
        if kinds == {Collapse.COUNTING}:
            yield Diagnosis(CODE, side, values)
        elif kinds and kinds <= {Collapse.COUNTING, Collapse.BELOW_COUNTING, Collapse.BY_HEART}:
            yield Diagnosis(DEGENERATE, side, {**values, "below_counting": kinds == {Collapse.BELOW_COUNTING}})
