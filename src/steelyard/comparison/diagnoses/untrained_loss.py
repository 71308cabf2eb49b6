"""The first loss, ln(padded vocabulary) + hidden x std^2 / 2, solved for the vocabulary and the weights' spread."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from steelyard.accounting.vocabularies import NEAR, Start, candidates, fitting, mock_starts, own_starts, share_that_fits
from steelyard.comparison.diagnoses import Cause, Diagnosis, Ending, endings
from steelyard.comparison.tiers import Pair
from steelyard.reasons import SideName
from steelyard.verdict import Status
from steelyard.verdict.floors import declared_of

_TELLING = 0.05
_LEAST_STD, _MOST_STD = 0.002, 0.05
"""What anybody starts weights with."""
_VAGUE = 0.2
"""Of all first losses: where more would fit some model, that this one does tells nothing."""


@dataclass(frozen=True, slots=True)
class Solved:
    starts: list[Start]
    as_declared: bool
    """Whether they are what was declared; else no such model starts there, and these are of another vocabulary."""
    share: float
    """Of all first losses: so many would have fitted one of those tried."""


def _sentence(side: SideName, first: float, declared: int | None, model: Solved | Start) -> str:
    loss = f"the {side}'s first loss, {first:.5g},"
    if isinstance(model, Start):
        return (
            f"{loss} is that of no documented model; solved for the weights of its declared one it takes an init std "
            f"of {model.std:.4f}; it tells of weights, not of data or seed"
        )
    best, count = model.starts[0], len(model.starts)
    named = f"{best.vocabulary.words} with {best.spread}"
    if count > 1:
        named = f"{count} documented models: {named}, or others"
    if not model.as_declared and declared:
        none = f"is that of no documented model over its declared {declared:,} tokens"
        start = f"{none}; it is consistent with {named}"
    else:
        start = f"is {'that of' if count == 1 and model.share <= _TELLING else 'consistent with'} {named}"
    return f"{loss} {start}; it tells of vocabulary and weights, not of data or seed"


def _evidence(first: float, declared: int | None, model: Solved | Start, **_: Any) -> Iterator[str]:
    yield f"the first loss is {first:.5g}"
    if isinstance(model, Start):
        yield f"ln {model.vocabulary.padded:,} + {model.hidden:,} x {model.std:.4f}² / 2 = {model.loss:.4f}"
        return
    yield from (start.words for start in model.starts[:4])
    if declared and first < math.log(declared):
        yield f"it is below ln {declared:,} = {math.log(declared):.4f}: no untrained model of its declared vocabulary"
    yield f"of all first losses between ln 32,000 and 13, {model.share:.1%} would fit one of those tried"


def _confirm(model: Solved | Start, **_: Any) -> str:
    sizes = "" if isinstance(model, Start) else "`model.vocab_size`, the tensor-parallel size and "
    return f"state {sizes}`training.init_method_std` of both sides"


CODE = Cause("untrained_loss", _sentence, evidence=_evidence, confirm=_confirm)
"""What a first loss says about the vocabulary and the initial weights."""


def diagnose(pair: Pair) -> Iterator[Diagnosis]:
    verdicts = {side.name: side.verdicts[0] for side in pair.sides}
    sides = list(endings(pair))
    firsts = [runs[0].course.first for _, runs in sides]
    if len(sides) < 2 or abs(firsts[0] - firsts[1]) < NEAR:
        return
    for side, runs in sides:
        ending = runs[0]
        alone = ending.curve.step[0] == 1 and ending.curve.covered[0] == 1
        own = [finding.status for finding in verdicts[side].findings if finding.check == "first_loss"]
        if not alone or ending.subject.events_of("resumed") or own == [Status.PASS]:
            continue  # the planned model's own first loss needs no explanation
        solved = solve(ending)
        model = solved if solved.starts and solved.share <= _VAGUE else _undocumented(ending)
        if model is not None:
            values = {"first": ending.course.first, "declared": ending.subject.whole("model.vocab_size")}
            yield Diagnosis(CODE, side, {"side": side, **values, "model": model})


def _undocumented(ending: Ending) -> Start | None:
    """The model that is declared, with the only init std that gives its first loss; None where that is not known."""
    declared = declared_of(ending.subject)
    if not (declared.vocab_size and declared.hidden_size and declared.std is None):
        return None
    sizes = list(candidates([declared.vocab_size], declared.habits, declared.tensor))
    above = ending.course.first - sizes[0].uniform
    if len(sizes) > 1 or above <= NEAR:
        return None
    std = math.sqrt(2 * above / declared.hidden_size)
    return Start(sizes[0], declared.hidden_size, std) if _LEAST_STD <= std <= _MOST_STD else None


def solve(ending: Ending) -> Solved:
    """What is declared binds; only where no such model starts so is the vocabulary doubted. The nearest first."""
    declared = declared_of(ending.subject)
    own = own_starts(declared)
    near = fitting(own, ending.course.first)
    if near or declared.vocab_size is None:
        return Solved(near, True, share_that_fits(own))
    mock = mock_starts(declared)
    return Solved(fitting(mock, ending.course.first), False, share_that_fits([*own, *mock]))
