"""Vocabulary and initial weights from the first loss: ln(padded vocabulary) + hidden x std^2 / 2.

A vocabulary is named only where one fits and others do not.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from steelyard.accounting.vocabularies import NEAR, Start, candidates, fitting, mock_starts, own_starts, share_that_fits
from steelyard.comparison.diagnoses import Cause, Diagnosis, Ending, endings
from steelyard.comparison.tiers import Pair
from steelyard.verdict import Status
from steelyard.verdict.floors import declared_of

_TELLING = 0.05
_LEAST_STD, _MOST_STD = 0.002, 0.05
"""Range of plausible init stds."""
_VAGUE = 0.2
"""Share of all first losses; if more would fit some model, a fit proves nothing."""


@dataclass(frozen=True, slots=True)
class Solved:
    starts: list[Start]
    as_declared: bool
    """Whether they have the declared vocabulary; otherwise no such model fits, and these have another one."""
    share: float
    """Share of all first losses that would fit one of the models tried."""

    @property
    def vocabularies(self) -> int:
        return len({(start.vocabulary.size, start.vocabulary.padded) for start in self.starts})


def _sentence(side: str, first: float, declared: int | None, model: Solved | Start) -> str:
    loss = f"first loss of {side} ({first:.5g})"
    if isinstance(model, Start):
        return f"{loss} fits no documented model: its declared model would need an init std of {model.std:.4f}"
    best, count = model.starts[0], len(model.starts)
    fitting = f"{best.vocabulary.words} with {best.spread}" if count == 1 else best.vocabulary.words
    if model.vocabularies > 1:
        fitting = f"{model.vocabularies} documented vocabularies, so it does not show which one was used"
    if not model.as_declared and declared:
        return f"{loss} does not fit the declared vocabulary of {declared:,}; it fits {fitting}"
    return f"{loss} {'fits' if count == 1 and model.share <= _TELLING else 'may fit'} {fitting}"


def _evidence(first: float, declared: int | None, model: Solved | Start, **_: Any) -> Iterator[str]:
    yield f"first loss {first:.5g}, which depends on vocabulary and initial weights, not on data or seed"
    if isinstance(model, Start):
        yield f"ln {model.vocabulary.padded:,} + {model.hidden:,} x {model.std:.4f}² / 2 = {model.loss:.4f}"
        return
    yield from (start.words for start in model.starts[:4])
    if declared and first < math.log(declared):
        yield f"below ln {declared:,} = {math.log(declared):.4f}: impossible for an untrained model of that vocabulary"
    yield f"{model.share:.1%} of all first losses between ln 32,000 and 13 would fit by chance"


def _confirm(model: Solved | Start, **_: Any) -> str:
    sizes = "" if isinstance(model, Start) else "`model.vocab_size`, the tensor-parallel size and "
    return f"set {sizes}`training.init_method_std` of both sides"


CODE = Cause("untrained_loss", _sentence, evidence=_evidence, confirm=_confirm)
"""What a first loss shows about the vocabulary and the initial weights."""


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
            continue  # the first loss of the planned model needs no explanation
        solved = solve(ending)
        model = solved if solved.starts and solved.share <= _VAGUE else _undocumented(ending)
        if model is not None:
            values = {"first": ending.course.first, "declared": ending.subject.whole("model.vocab_size")}
            yield Diagnosis(CODE, side, {"side": pair.name_of(side), **values, "model": model})


def _undocumented(ending: Ending) -> Start | None:
    """The declared model, with the init std that gives its first loss; None if unknown."""
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
    """Models that fit the first loss, nearest first; undeclared vocabularies only if the declared one does not fit."""
    declared = declared_of(ending.subject)
    own = own_starts(declared)
    near = fitting(own, ending.course.first)
    if near or declared.vocab_size is None:
        return Solved(near, True, share_that_fits(own))
    mock = mock_starts(declared)
    return Solved(fitting(mock, ending.course.first), False, share_that_fits([*own, *mock]))
