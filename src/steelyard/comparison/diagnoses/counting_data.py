"""Megatron's mock data counts 1, 2, 3, ...: after a model has learned to count, only document ends are random."""

from collections.abc import Iterator, Sequence

from steelyard.comparison.diagnoses import Cause, Diagnosis, Ending, endings
from steelyard.comparison.tiers import Pair
from steelyard.frameworks.facts import MOCK_DATA_NAMES, UNKNOWN, MockData
from steelyard.frameworks.registry import facts
from steelyard.verdict.floors import COUNTING, NO_TEXT, Collapse, collapse

FLOOR = COUNTING
_NAME = MOCK_DATA_NAMES[MockData.COUNTING]
_FLOOR = f"its floor is ln 4,095 / 2,048 = {FLOOR:.5f} nats per token"


def _counting(side: str, endings: Sequence[Ending]) -> str:
    end = min(ending.course.end for ending in endings)
    data = f"{_NAME} (1, 2, 3, ...)"
    if all(ending.subject.run.manifest.framework == UNKNOWN for ending in endings):
        data = f"one memorized batch or {data}"
    return f"{side} trained on {data}: its loss ends at {end:.3g}, the floor is {FLOOR:.5f}"


def _counting_evidence(side: str, endings: Sequence[Ending]) -> Iterator[str]:
    yield from (ending.where for ending in endings)
    still = "; the loss still falls" if any(ending.course.still_falls for ending in endings) else ""
    yield f"{_NAME} counts to the end of a document: {_FLOOR}{still}"
    yield from _not_text(endings)
    yield "this shows nothing about learning text, and another seed does not change it"


def _counting_confirm(side: str, endings: Sequence[Ending]) -> str:
    setting = facts(endings[0].subject.run.manifest.framework).spelling("data.source")
    return f"look for mock data or a missing data path in the config{f' ({setting})' if setting else ''}"


def _not_text(endings: Sequence[Ending]) -> Iterator[str]:
    yield f"first loss {endings[0].course.first:.5g}: no text is learned below {NO_TEXT} nats per token"


def _degenerate(side: str, endings: Sequence[Ending], below_counting: bool) -> str:
    end = f"its loss ends at {min(ending.course.mean for ending in endings):.3g}"
    if below_counting:
        return f"{side} trained on degenerate data: {end}, below the floor {FLOOR:.5f} of {_NAME}"
    return f"{side} trained on degenerate or memorized data: {end}, lower than on any text read once"


def _degenerate_evidence(side: str, endings: Sequence[Ending], below_counting: bool) -> Iterator[str]:
    yield from (ending.where for ending in endings)
    if below_counting:
        yield f"{_NAME}: {_FLOOR}; below it, document ends are masked, data repeats, or all tokens are equal"
    else:
        yield from _not_text(endings)


def _degenerate_confirm(side: str, endings: Sequence[Ending], below_counting: bool) -> str:
    masks = "whether a setting or a pad token masks document ends"
    return f"look at the tokens of one batch, and {masks if below_counting else 'how often each is read'}"


CODE = Cause(
    "counting_data",
    _counting,
    evidence=_counting_evidence,
    confirm=_counting_confirm,
)
"""A side trained on Megatron's mock data, which counts 1, 2, 3 to the end of a document."""
DEGENERATE = Cause("degenerate_data", _degenerate, evidence=_degenerate_evidence, confirm=_degenerate_confirm)
"""A side's loss ends lower than that of any text: its data repeats or was memorized."""


def diagnose(pair: Pair) -> Iterator[Diagnosis]:
    for side, ends in endings(pair):
        kinds = {collapse(ending.subject) for ending in ends}
        values = {"side": pair.name_of(side), "endings": ends}
        if kinds == {Collapse.COUNTING}:
            yield Diagnosis(CODE, side, values)
        elif kinds and kinds <= {Collapse.COUNTING, Collapse.BELOW_COUNTING, Collapse.BY_HEART}:
            yield Diagnosis(DEGENERATE, side, {**values, "below_counting": kinds == {Collapse.BELOW_COUNTING}})
