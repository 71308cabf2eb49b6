"""Whether the sides learn alike, how long they take to a loss, and what explains where they do not."""

from collections.abc import Iterator, Sequence

from steelyard.comparison import Comparison, Metric
from steelyard.comparison.convergence import LossesAt
from steelyard.comparison.diagnoses import counting_data, endings, uniform_data, untrained_loss
from steelyard.comparison.intervals import LEVEL
from steelyard.comparison.tiers import TIERS, Answer, Pair
from steelyard.comparison.time_to_loss import SideToLoss, TimeToLoss
from steelyard.reporting.curves import number
from steelyard.reporting.page import Block, Cell, Level, Point, Points, Table, Tone
from steelyard.verdict.floors import uniform_vocabulary

_TONES = {Answer.PASS: Tone.GOOD, Answer.FAIL: Tone.BAD, Answer.UNKNOWN: Tone.UNSURE, Answer.NOT_APPLICABLE: Tone.PLAIN}

_EVALUATIONS = 8
"""The last of them that a table has room for."""


def learning_blocks(made: Comparison) -> list[Block]:
    """The tiers, the losses side by side, the time to a loss, and the diagnoses."""
    return [_tiers(made), *_losses(made), *_time_to_loss(made), *_diagnoses(made)]


def _tiers(made: Comparison) -> Table:
    found = made.convergence
    asked = Metric.CONVERGENCE in made.asked
    rows: list[list[str | Cell]] = []
    for tier in found.tiers:
        first = " (the first that fails)" if tier.tier == found.first_failing_tier else ""
        margin = "" if tier.margin is None else f"{tier.margin:.3g}"
        word = Cell(tier.status.value.replace("_", " "), _TONES[tier.status])
        rows.append([word, f"{tier.tier}{first}", tier.message, margin])
    failing = found.first_failing_tier
    told = "No tier fails."
    if failing:
        rest = "" if failing == TIERS[-1] else "; what comes after it is not asked"
        told = f"{failing} is the first tier that fails{rest}."
    scope = "".join(f" {_sentence(limit.message)}" for limit in found.scope)
    return Table(
        f"Convergence{'' if asked else ', which was not asked'}: {found.status.replace('_', ' ')}",
        ["answer", "tier", "what was found", "margin"],
        rows,
        f"{told}{scope} Learning is judged apart from rates; neither vouches for the other.",
        folded=not asked,
    )


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _losses(made: Comparison) -> Iterator[Table]:
    if Metric.CONVERGENCE not in made.asked:
        return
    note = "Nats a token, the mean of each side's runs; steps counted from 0, as logs of the field do."
    for title, found in (
        ("Losses side by side", made.convergence.losses),
        ("Losses of evaluations", made.convergence.evaluations[-_EVALUATIONS:]),
    ):
        if found:
            yield Table(title, ["side", *(f"step {one.step:,}" for one in found)], _rows(found), note)


def _rows(found: Sequence[LossesAt]) -> list[list[str | Cell]]:
    return [
        [name, *("-" if value is None else f"{value:.4f}" for value in values)]
        for name, values in (
            ("target", [one.target for one in found]),
            ("baseline", [one.baseline for one in found]),
        )
    ]


def _time_to_loss(made: Comparison) -> Iterator[Table]:
    found, title = made.time_to_loss, "Time to a loss"
    if not isinstance(found, TimeToLoss):
        if Metric.CONVERGENCE in made.asked:
            yield Table(title, [], [], f"Not known: {found.message}.")
        return
    basis = "between runs" if found.interval == "runs" else "inside these runs, which says nothing of another run"
    rows: list[list[str | Cell]] = [
        [side.name, number(own.seconds), *_energy_and_cost(own)]
        for side, own in ((made.target, found.target), (made.baseline, found.baseline))
    ]
    around = "without an interval, since the step times do not tell how far they spread"
    if found.low is not None and found.high is not None:
        around = f"{LEVEL:.0%} interval {found.low:.4f} to {found.high:.4f} {basis}"
    yield Table(
        f"{title} of {found.loss:.4g}",
        ["side", "seconds", "energy, kWh", "cost, by the price sheet"],
        rows,
        f"Target over baseline {found.ratio:.4f}, {around}: below 1 the target is there first. The loss is the lowest "
        "of those that all runs reach.",
    )


def _energy_and_cost(own: SideToLoss) -> Iterator[str]:
    for figure, reason in ((own.energy_kwh, own.energy_reason), (own.cost, own.cost_reason)):
        yield f"unknown: {reason.message}" if reason else f"{figure:.3g}"


def _diagnoses(made: Comparison) -> list[Points]:
    if not made.diagnoses:
        return []
    points = [
        Point(
            _sentence(one.message),
            [f"Rests on: {'; '.join(one.evidence)}.", f"To confirm: {one.confirm}. ({one.code.name}, {one.side})"],
        )
        for one in made.diagnoses
    ]
    note = "Every cause there is evidence for, the most telling first."
    alike = made.convergence.status == "equivalent"
    return [Points("What else the records tell" if alike else "What explains the difference", points, note)]


def diagnosed_levels(made: Comparison) -> Iterator[Level]:
    """Floors of made data and first losses that a diagnosis recognised, to be drawn beside the curves."""
    told = {(one.code, one.side) for one in made.diagnoses}
    for side in (made.target, made.baseline):
        if side.subjects[0].expected("first_loss") is not None:
            told.discard((untrained_loss.CODE, side.name))  # what is predicted is drawn already
    if not any(code in (counting_data.CODE, uniform_data.CODE, untrained_loss.CODE) for code, _ in told):
        return
    for name, found in endings(Pair(made.target, made.baseline, made.contract)):
        if (counting_data.CODE, name) in told:
            yield Level("floor of counting data", counting_data.FLOOR)
        if (uniform_data.CODE, name) in told and (vocabulary := uniform_vocabulary(found[0].subject)):
            yield Level(f"floor of uniform tokens, ln {vocabulary.size:,}", vocabulary.floor)
        if (untrained_loss.CODE, name) in told and len(solutions := untrained_loss.solve(found[0]).starts) == 1:
            yield Level(f"untrained {name}, by its first loss", solutions[0].loss)
