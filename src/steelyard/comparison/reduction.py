"""How far the loss of each side falls, how far its data lets it fall, and whether that shows learning."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

import numpy as np

from steelyard.accounting.steady import FEWEST_LOSSES
from steelyard.comparison.curve import LossCurve
from steelyard.comparison.side import Side
from steelyard.comparison.tiers import Pair
from steelyard.comparison.tiers.stability import lost_at
from steelyard.frameworks.facts import MOCK_DATA_NAMES, MockData
from steelyard.reasons import Code, Reason
from steelyard.verdict import Status, Subject, Verdict
from steelyard.verdict.checks import loss_falling
from steelyard.verdict.finding import Finding, Result
from steelyard.verdict.floors import COUNTING, Collapse, collapse, is_one_batch, uniform_vocabulary


class Learning(StrEnum):
    """What the losses of a side show about learning."""

    NOT_FINITE = "not_finite"
    NOTHING_TO_LEARN = "nothing_to_learn"
    COUNTS = "counts"
    MEMORIZES = "memorizes"
    REPEATS = "repeats"
    FAILS = "fails"
    LEARNS = "learns"
    UNKNOWN = "unknown"


GENERATED = (Learning.NOTHING_TO_LEARN, Learning.COUNTS, Learning.MEMORIZES, Learning.REPEATS)
"""Losses that show nothing about learning text."""
FAULTY = (*GENERATED, Learning.FAILS, Learning.NOT_FINITE)
"""Losses with something to be fixed."""


@dataclass(frozen=True, slots=True)
class Floor:
    """The entropy of the data, declared or recognized from the losses, in nats per token."""

    value: float
    data: str
    """The source of the data, by its name in the experiment."""

    @property
    def figure(self) -> str:
        return f"{self.value:.4f}" if self.value >= 1 else f"{self.value:.3g}"

    @property
    def words(self) -> str:
        """What the data is."""
        if self.data == MockData.UNIFORM:
            return f"random tokens, ln {math.exp(self.value):,.0f}"
        return MOCK_DATA_NAMES[MockData.COUNTING] if self.data == MockData.COUNTING else f"{self.data} data"


@dataclass(frozen=True, slots=True)
class Reduction:
    """The fall of the loss of one side; means over its runs."""

    side: Literal["target", "baseline"]
    called: str
    learning: Learning
    first: float
    first_steps: tuple[int, int]
    """The steps of the first record, which may be a mean."""
    end: float
    """The median of the last ten records; of a run with fewer than 20 the last. On counting data the mean of the last
    quarter, because most of its batches are below the floor and the others far above."""
    end_step: int
    floor: Floor | None
    """None if unknown, as for text."""
    reason: Reason

    @property
    def share(self) -> float:
        """The fall as a share of the first loss; negative for a rise."""
        return (self.first - self.end) / self.first

    @property
    def above_floor(self) -> float | None:
        return self.end - self.floor.value if self.floor else None

    @property
    def possible(self) -> float | None:
        """The largest possible share, which the floor limits."""
        return max(0.0, 1 - self.floor.value / self.first) if self.floor else None

    def document(self) -> dict[str, Any]:
        floor = self.floor
        return {
            "learning": self.learning.value,
            "code": self.reason.code.name,
            "message": self.reason.message,
            "first_loss": self.first,
            "first_step": self.first_steps[1],
            "end_loss": self.end,
            "end_step": self.end_step,
            "reduction": self.share,
            "largest_possible_reduction": self.possible,
            "floor": floor.value if floor else None,
            "floor_of": floor.data if floor else None,
            "above_floor": self.above_floor,
        }


def _course(first: float, end: float, end_step: int, **_: Any) -> str:
    """`its loss falls by 7.04%, from 11.654 to 10.833 at step 101`."""
    start, stop = f"{first:.5g}", f"{end:.5g}"
    if start == stop:
        return f"its loss stays at {stop} up to step {end_step:,}"
    word, share = ("falls", 1 - end / first) if end < first else ("rises", end / first - 1)
    return f"its loss {word} by {share:.2%}, from {start} to {stop} at step {end_step:,}"


def _on_floor(floor: Floor | None, **values: Any) -> str:
    """The course, and the distance to the floor if it is known."""
    course = _course(**values)
    if floor is None:
        return course
    apart = values["end"] - floor.value
    place = f"{abs(apart):.2g} nats {'above' if apart >= 0 else 'below'}"
    return f"{course}, {place} the floor {floor.figure} ({floor.words})"


def _in_doubt(side: str, why: Result | None, **values: Any) -> str:
    unsure = f"; whether it learns is unknown: {why.message}" if why else ""
    return f"{side}: {_on_floor(**values)}{unsure}"


def _not_finite(side: str, lost: int, **values: Any) -> str:
    return f"{side} has no valid loss from step {lost:,} to the end; before, {_course(**values)}"


NOT_FINITE = Code("loss_not_finite_to_the_end", _not_finite)
"""A run of the side has no valid loss from some step to its end."""
NOTHING_TO_LEARN = Code(
    "loss_had_nothing_to_learn", lambda side, **values: f"{side} had nothing to learn: {_on_floor(**values)}"
)
"""The side trained on random tokens, which cannot be learned."""
COUNTS = Code("loss_of_counting", lambda side, **values: f"{side} learned only to count: {_on_floor(**values)}")
"""The side trained on Megatron's mock data, which counts 1, 2, 3, ..."""
MEMORIZES = Code(
    "loss_of_memorizing",
    lambda side, **values: f"{side} memorized its data, or the data is degenerate: {_on_floor(**values)}",
)
"""The loss of the side is lower than that of any text read once."""
REPEATS = Code(
    "loss_of_repeating",
    lambda side, **values: f"{side} trained on the same samples again and again: {_on_floor(**values)}",
)
"""The side repeats its samples, which it can only memorize."""
FAILS = Code(
    "loss_fails_to_fall", lambda side, why, **values: f"{side}: {_on_floor(**values)}; {why.check} fails: {why.message}"
)
"""The check `loss_falling` fails for a run of the side."""
LEARNS = Code("loss_learns", lambda side, **values: f"{side} learns: {_on_floor(**values)}")
"""The loss of every run of the side clearly falls."""
UNKNOWN = Code("loss_learning_unknown", _in_doubt)
"""The losses are too few or too noisy to show whether the side learns."""
TOO_FEW = Code("loss_too_few_valid", "{side} has fewer than {fewest} valid losses, so nothing shows whether it learns")
"""A run of the side has too few valid losses for a course."""
NEITHER_LEARNS = Code("loss_of_neither_learns", "neither side shows learning of text")
"""Both sides trained on data that shows nothing about learning."""
_CODES = {
    Learning.NOT_FINITE: NOT_FINITE,
    Learning.NOTHING_TO_LEARN: NOTHING_TO_LEARN,
    Learning.COUNTS: COUNTS,
    Learning.MEMORIZES: MEMORIZES,
    Learning.REPEATS: REPEATS,
    Learning.FAILS: FAILS,
    Learning.LEARNS: LEARNS,
    Learning.UNKNOWN: UNKNOWN,
}
_OF_COLLAPSE = {Collapse.COUNTING: Learning.COUNTS}


def reductions(pair: Pair) -> tuple[Reduction, ...]:
    """Target first; without a side that has too few losses."""
    sides = zip(pair.sides, pair.curves, strict=True)
    return tuple(made for side, curves in sides if (made := _of_side(side, curves)) is not None)


def observed(sides: Sequence[Side], made: Sequence[Reduction]) -> Iterator[Reason]:
    """What the losses of each side show, and what they show together."""
    reasons = {reduction.side: reduction.reason for reduction in made}
    for side in sides:
        yield reasons.get(side.name) or Reason(TOO_FEW, {"side": side.called, "fewest": FEWEST_LOSSES}, side=side.name)
    if len(made) == len(sides) and all(each.learning in GENERATED for each in made):
        yield Reason(NEITHER_LEARNS)


def _of_side(side: Side, curves: Sequence[LossCurve]) -> Reduction | None:
    courses = [subject.course for subject in side.subjects]
    known = [course for course in courses if course is not None]
    if len(known) < len(courses):
        return None
    shown = list(map(_learning, side.subjects, side.verdicts, curves))
    learning = next((each for each in (Learning.NOT_FINITE, Learning.FAILS) if each in shown), shown[0])
    if learning not in (Learning.NOT_FINITE, Learning.FAILS) and len(set(shown)) > 1:
        learning = Learning.UNKNOWN
    floors = {_floor(subject) for subject in side.subjects}
    floor = floors.pop() if len(floors) == 1 else None
    final = "mean" if floor is not None and floor.data == MockData.COUNTING else "end"
    first, end = (float(np.mean([getattr(course, name) for course in known])) for name in ("first", final))
    last = min(int(curve.step[-1]) for curve in curves)
    values = {"side": side.called, "first": first, "end": end, "end_step": last, "floor": floor}
    lost = [step for step in map(lost_at, side.subjects, curves) if step is not None]
    reason = Reason(_CODES[learning], {**values, "lost": min(lost, default=None), "why": _why(side)}, side=side.name)
    begun = int(curves[0].step[0] - curves[0].covered[0]) + 1, int(curves[0].step[0])
    return Reduction(side.name, side.called, learning, first, begun, end, last, floor, reason)


def _learning(subject: Subject, verdict: Verdict, curve: LossCurve) -> Learning:
    """What the losses themselves show first, then what is declared."""
    if lost_at(subject, curve) is not None:
        return Learning.NOT_FINITE
    if uniform_vocabulary(subject) is not None:
        return Learning.NOTHING_TO_LEARN
    if (kind := collapse(subject)) is not None:
        return _OF_COLLAPSE.get(kind, Learning.MEMORIZES)
    falling = next(_of_falling(verdict), None)
    code, status = (falling.code, getattr(falling, "status", None)) if falling else (None, None)
    if status == Status.FAIL:
        return Learning.FAILS
    if code in (loss_falling.UNIFORM_SOURCE, loss_falling.UNIFORM_PLATEAU):
        return Learning.NOTHING_TO_LEARN
    if code is loss_falling.REPEATED_SAMPLES or is_one_batch(subject):
        return Learning.REPEATS
    if subject.value("data.source") == MockData.COUNTING:
        return Learning.COUNTS
    return Learning.LEARNS if status == Status.PASS else Learning.UNKNOWN


def _of_falling(verdict: Verdict) -> Iterator[Result]:
    results = (*verdict.findings, *verdict.not_applicable)
    return (result for result in results if result.check == loss_falling.CHECK.name)


def _why(side: Side) -> Result | None:
    """The worst finding about whether the loss of the side falls; None if it does."""
    findings = [result for verdict in side.verdicts for result in _of_falling(verdict) if isinstance(result, Finding)]
    order = [Status.FAIL, Status.UNKNOWN]
    open_ = [finding for finding in findings if finding.status in order]
    return min(open_, key=lambda finding: order.index(finding.status), default=None)


def _floor(subject: Subject) -> Floor | None:
    """The declared floor, else that of data that the losses show."""
    declared, source = subject.expected("loss_floor"), subject.value("data.source")
    if declared is not None and isinstance(source, str):
        return Floor(declared, source)
    if (vocabulary := uniform_vocabulary(subject)) is not None:
        return Floor(vocabulary.floor, MockData.UNIFORM)
    if collapse(subject) == Collapse.COUNTING:
        return Floor(COUNTING, MockData.COUNTING)
    return None
