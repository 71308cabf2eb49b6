"""The first loss, ln(padded vocabulary) + hidden x std^2 / 2, solved for the vocabulary and the weights' spread."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from steelyard.accounting.untrained import (
    NEAR,
    Start,
    fitting,
    mock_starts,
    own_starts,
    share_that_fits,
)
from steelyard.accounting.vocabularies import candidates
from steelyard.comparison.diagnoses.diagnosis import Diagnosis, Ending, endings
from steelyard.comparison.tiers import Pair
from steelyard.verdict import Status
from steelyard.verdict.floors import declared_of

CODE = "untrained_loss"
_TELLING = 0.05
_LEAST_STD, _MOST_STD = 0.002, 0.05
"""What anybody starts weights with."""
_VAGUE = 0.2
"""Of all first losses: where more would fit some model, that this one does tells nothing."""


@dataclass(frozen=True, slots=True)
class Solved:
    """The documented models that start at a loss."""

    starts: list[Start]
    as_declared: bool
    """Whether they are what was declared; else no such model starts there, and these are of another vocabulary."""
    share: float
    """Of all first losses: so many would have fitted one of those tried."""


def diagnose(pair: Pair) -> Iterator[Diagnosis]:
    """Of sides whose first losses differ: there each is explained."""
    found = list(endings(pair))
    firsts = [one[0].first for _, one in found]
    if len(found) < 2 or abs(firsts[0] - firsts[1]) < NEAR:
        return
    for side, runs in found:
        one = runs[0]
        alone = one.curve.step[0] == 1 and one.curve.covered[0] == 1
        if not alone or one.subject.events_of("resumed") or _passes(pair, side):
            continue
        solved = _solved(one)
        if solved.starts and solved.share <= _VAGUE:
            yield _diagnosis(side, one, solved)
        elif (start := _undocumented(one)) is not None:
            yield _of_another_std(side, one, start)


def _passes(pair: Pair, name: str) -> bool:
    """Whether the first loss is the planned model's own: then there is nothing to explain."""
    side = pair.target if name == "target" else pair.baseline
    found = [one.status for one in side.verdicts[0].findings if one.check == "first_loss"]
    return found == [Status.PASS]


def _diagnosis(side: Literal["target", "baseline"], one: Ending, solved: Solved) -> Diagnosis:
    declared = one.subject.whole("model.vocab_size")
    best = solved.starts[0]
    named = f"{best.vocabulary.words} with {best.spread}"
    loss = f"the {side}'s first loss, {one.first:.5g},"
    if len(solved.starts) > 1:
        named = f"{len(solved.starts)} documented models: {named}, or others"
    if not solved.as_declared and declared:
        none = f"is that of no documented model over its declared {declared:,} tokens"
        message = f"{loss} {none}; it is consistent with {named}"
    elif len(solved.starts) == 1 and solved.share <= _TELLING:
        message = f"{loss} is that of {named}"
    else:
        message = f"{loss} is consistent with {named}"
    evidence = [f"the first loss is {one.first:.5g}", *(start.words for start in solved.starts[:4])]
    if declared and one.first < math.log(declared):
        evidence.append(
            f"it is below ln {declared:,} = {math.log(declared):.4f}: no untrained model of its declared vocabulary"
        )
    evidence.append(f"of all first losses between ln 32,000 and 13, {solved.share:.1%} would fit one of those tried")
    return Diagnosis(
        CODE,
        side,
        f"{message}; it tells of vocabulary and weights, not of data or seed",
        tuple(evidence),
        "state `model.vocab_size`, the tensor-parallel size and `training.init_method_std` of both sides",
    )


def _undocumented(one: Ending) -> Start | None:
    """The model that is declared, with the only init std that gives its first loss; None where that is not known."""
    declared = declared_of(one.subject)
    if not (declared.vocab_size and declared.hidden_size and declared.std is None):
        return None
    sizes = list(candidates([declared.vocab_size], declared.habits, declared.tensor))
    above = one.first - sizes[0].uniform
    if len(sizes) > 1 or above <= NEAR:
        return None
    std = math.sqrt(2 * above / declared.hidden_size)
    return Start(sizes[0], declared.hidden_size, std) if _LEAST_STD <= std <= _MOST_STD else None


def _of_another_std(side: Literal["target", "baseline"], one: Ending, start: Start) -> Diagnosis:
    return Diagnosis(
        CODE,
        side,
        f"the {side}'s first loss, {one.first:.5g}, is that of no documented model; solved for the weights of its "
        f"declared one it takes an init std of {start.std:.4f}; it tells of weights, not of data or seed",
        (
            f"the first loss is {one.first:.5g}",
            f"ln {start.vocabulary.padded:,} + {start.hidden:,} x {start.std:.4f}² / 2 = {start.loss:.4f}",
        ),
        "state `training.init_method_std` of both sides",
    )


def solve(one: Ending) -> list[Start]:
    """Every documented model that gives this first loss, the nearest first."""
    return _solved(one).starts


def _solved(one: Ending) -> Solved:
    """What is declared binds; only where no such model starts so is the vocabulary doubted."""
    declared = declared_of(one.subject)
    own = own_starts(declared)
    near = fitting(own, one.first)
    if near or declared.vocab_size is None:
        return Solved(near, True, share_that_fits(own))
    mock = mock_starts(declared)
    return Solved(fitting(mock, one.first), False, share_that_fits([*own, *mock]))
