"""What two runs should show once the remedies are applied, and what may still differ."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from steelyard.accounting.vocabularies import Declared, Start, candidates, fitting, own_starts
from steelyard.comparison.chance import LEVEL_SPREAD, by_seeds
from steelyard.comparison.comparison import Comparison
from steelyard.comparison.contract import Agreement, Clause, known_value
from steelyard.comparison.phrases import listed, plain_percent, shortened
from steelyard.comparison.remedies import few_seeds, pair_of, start_apart, to_fix, without_learning
from steelyard.comparison.starts import DETERMINISTIC, WEIGHTS, stacks_apart
from steelyard.comparison.tiers import Pair, first_loss, first_steps, level
from steelyard.experiment.policy import Effect, Metric
from steelyard.frameworks.registry import facts
from steelyard.reasons import Code, Reason
from steelyard.verdict import Subject
from steelyard.verdict.floors import NO_TEXT, declared_of

_MOST_NAMED = 4
"""Settings that a sentence names."""


@dataclass(frozen=True, slots=True)
class FirstLoss:
    """The loss of an untrained model on each side, for one init std."""

    target: float
    baseline: float
    spread: str
    """`init std 0.02`, or fan-in initialization; empty if it is declared."""

    @property
    def words(self) -> str:
        """`11.893 and 11.895 with init std 0.008`, target first; one value if the sides have it."""
        value, other = f"{self.target:.5g}", f"{self.baseline:.5g}"
        values = value if value == other else f"{value} and {other}"
        return f"{values} with {self.spread}" if self.spread else values


def _first_loss(losses: Sequence[FirstLoss]) -> str:
    values = listed([loss.words for loss in losses], "or")
    return f"first loss: that of an untrained model on both sides, {values}"


def _first_losses(apart: float, equal_weights: float, steps: int, first_steps: float) -> str:
    return (
        f"first losses: within {apart:g} nats of each other; from one file of weights and on one batch within "
        f"{plain_percent(equal_weights)}, and the first {steps} steps within {plain_percent(first_steps)}"
    )


def _level(margin: float, explains: float, few: bool) -> str:
    chance = f"; with as few seeds as here, {plain_percent(round(margin + explains, 3))} can be chance" if few else ""
    return f"last third: losses within {plain_percent(margin)} of each other{chance}"


def _layout(settings: Sequence[str]) -> str:
    named = shortened(settings, _MOST_NAMED)
    return f"may still differ: rounding, because {named} differ{'s' * (len(settings) == 1)}"


FIRST_LOSS = Code("expected_first_loss", _first_loss)
"""The loss that both untrained models start at."""
FIRST_LOSS_OF_A_MODEL = Code(
    "expected_first_loss_of_a_model",
    "first loss: ln(padded vocabulary) + hidden size x init std² / 2 on both sides; name the model with "
    "`--set model.preset=NAME` for the value",
)
"""Both untrained models start at one loss, whose value needs the vocabulary and the hidden size."""
FIRST_LOSSES = Code("expected_first_losses", _first_losses)
"""How near the first losses and the first steps of the two sides are, by the margins of those tiers."""
LEVEL = Code("expected_level", _level)
"""How near the losses of the last third are, by the margin of the tier and what seeds explain."""
FLOOR = Code("expected_floor", "floor: neither loss falls below {floor.figure} nats ({floor.words})")
"""Both sides train on data with this floor."""
FLOOR_OF_TEXT = Code(
    "expected_floor_of_text",
    lambda least, uniform: (
        f"floor: unknown for text, but above {least} nats; a loss below it, or one that stays at "
        f"{f'ln(vocabulary) = {uniform:.2f}' if uniform else 'ln(vocabulary)'}, shows generated data again"
    ),
)
"""The floor of text is unknown; the losses that show generated data are known."""
WEIGHTS_DIFFER = Code(
    "still_other_weights", "may still differ: the initial weights, also with equal seeds, because {apart.message}"
)
"""One seed does not give the two sides the same weights, or may not."""
ORDER_DIFFERS = Code(
    "still_other_order",
    "may still differ: the order of the data, because {target} and {baseline} each shuffle one corpus in their own way",
)
"""Two frameworks may read one corpus in two orders, whatever their seeds."""
ROUNDING_DIFFERS = Code("still_other_rounding", _layout)
"""Parallel sizes or number formats differ, which changes rounding."""
KERNELS_DIFFER = Code(
    "still_other_kernels",
    "may still differ: every repeat, unless the kernels are deterministic (`kernels.deterministic`)",
)
"""Kernels that may not be deterministic give other losses in every repeat."""


def expectations(made: Comparison) -> tuple[Reason, ...]:
    """Values first, then what may still differ; empty if nothing is to be fixed."""
    if not to_fix(made):
        return ()
    pair = pair_of(made)
    return (*_starts(pair), *_nearness(pair), *_floor(made, pair), *_still(pair))


def _starts(pair: Pair) -> Iterator[Reason]:
    """The loss of the untrained models; nothing for weights that may be trained."""
    if any(_has_any_loss(subject) or subject.events_of("resumed") for subject in _subjects(pair)):
        return
    if losses := _first_losses_of(*(side.subjects[0] for side in pair.sides)):
        yield Reason(FIRST_LOSS, {"losses": losses}, keys=("training.init_method_std",))
    else:
        yield Reason(FIRST_LOSS_OF_A_MODEL, keys=("model.vocab_size", "training.init_method_std"))


def _first_losses_of(target: Subject, baseline: Subject) -> list[FirstLoss]:
    """One if it is expected on both sides, else one per init std that is stated, fits a first loss, or is usual."""
    here, there = target.expected("first_loss"), baseline.expected("first_loss")
    if here is not None and there is not None:
        return [FirstLoss(here, there, "")]
    own, other = declared_of(target), declared_of(baseline)
    stds: list[float | None] = [each.std for each in (own, other) if each.std is not None]
    if not stds:
        stds = [*_fitting_std(target), *_fitting_std(baseline)]
        stds += [std for std in own.habits.init_stds if std in other.habits.init_stds]
    starts = ((_start(own, std), _start(other, std)) for std in dict.fromkeys(stds))
    return [FirstLoss(start.loss, twin.loss, start.spread) for start, twin in starts if start and twin]


def _fitting_std(subject: Subject) -> Iterator[float | None]:
    """The usual init std with which the declared model starts at the recorded first loss."""
    declared, course = declared_of(subject), subject.course
    if declared.vocab_size and course is not None and (starts := fitting(own_starts(declared), course.first)):
        yield starts[0].std


def _start(of: Declared, std: float | None) -> Start | None:
    """The untrained model of a side; None if its size is unknown or its first loss depends on more."""
    if not of.vocab_size or not of.hidden_size or not of.habits.init_stds:
        return None
    return Start(next(candidates([of.vocab_size], of.habits, of.tensor)), of.hidden_size, std)


def _nearness(pair: Pair) -> Iterator[Reason]:
    runs = pair.target.subjects[0], pair.baseline.subjects[0]
    one_stack = next(stacks_apart(runs), None) is None
    equal = max(first_loss.SAME_WEIGHTS if one_stack else first_loss.OTHER_STACK, pair.rounding())
    early = {"steps": first_steps.STEPS, "first_steps": max(first_steps.MARGIN, pair.rounding())}
    yield Reason(FIRST_LOSSES, {"apart": first_loss.OWN_WEIGHTS, "equal_weights": equal, **early})
    margin = level.SAME_FRAMEWORK if pair.same("platform.framework") else level.ACROSS
    yield Reason(LEVEL, {"margin": margin, "explains": by_seeds(LEVEL_SPREAD, pair.seeds), "few": few_seeds(pair)})


def _floor(made: Comparison, pair: Pair) -> Iterator[Reason]:
    floors = {each.floor for each in made.convergence.reductions}
    floor = floors.pop() if len(floors) == 1 else None
    if floor is not None and not without_learning(made):
        yield Reason(FLOOR, {"floor": floor})
    elif not any(map(_has_any_loss, _subjects(pair))):
        sizes = {subject.whole("model.vocab_size") for subject in _subjects(pair)}
        size = sizes.pop() if len(sizes) == 1 else None
        yield Reason(FLOOR_OF_TEXT, {"least": NO_TEXT, "uniform": math.log(size) if size else None})


def _still(pair: Pair) -> Iterator[Reason]:
    if (apart := start_apart(pair)) is not None:
        yield Reason(WEIGHTS_DIFFER, {"apart": apart}, keys=(WEIGHTS,))
    if pair.same("platform.framework") is False:
        names: dict[str, str] = {side.name: side.subjects[0].run.manifest.framework for side in pair.sides}
        yield Reason(ORDER_DIFFERS, names, keys=("platform.framework",))
    if layout := [clause.dotted for clause in pair.clauses if _rounds(clause)]:
        yield Reason(ROUNDING_DIFFERS, {"settings": layout}, keys=tuple(layout))
    if not all(known_value(subject, DETERMINISTIC)[1] is True for subject in _subjects(pair)):
        yield Reason(KERNELS_DIFFER, keys=(DETERMINISTIC,))


def _rounds(clause: Clause) -> bool:
    """Whether a setting differs that is a caveat for curves, as layouts and number formats are."""
    return clause.status == Agreement.DIFFERENT and clause.governs.get(Metric.CONVERGENCE) == Effect.QUALIFIES


def _subjects(pair: Pair) -> list[Subject]:
    return [subject for side in pair.sides for subject in side.subjects]


def _has_any_loss(subject: Subject) -> bool:
    return facts(subject.run.manifest.framework).any_loss
