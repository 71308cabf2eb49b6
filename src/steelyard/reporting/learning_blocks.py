"""Whether the sides learn alike, how long they take to a loss, and what explains where they do not."""

from collections.abc import Iterator

from steelyard.comparison import Comparison, Metric
from steelyard.comparison.diagnoses import counting_data, endings, uniform_data, untrained_loss
from steelyard.comparison.intervals import LEVEL
from steelyard.comparison.tiers import TIERS, Answer, Pair
from steelyard.comparison.time_to_loss import TimeToLoss
from steelyard.reasons import Reason
from steelyard.reporting.curves import number
from steelyard.reporting.page import Block, Cell, Level, Point, Points, Table, Tone
from steelyard.verdict.floors import uniform_vocabulary

_TONES = {Answer.PASS: Tone.GOOD, Answer.FAIL: Tone.BAD, Answer.UNKNOWN: Tone.UNSURE, Answer.NOT_APPLICABLE: Tone.PLAIN}

_EVALUATIONS = 8
"""The last of them that a table has room for."""


def learning_blocks(made: Comparison) -> list[Block]:
    return [_tiers(made), *_losses(made), *_time_to_loss(made), *_diagnoses(made)]


def _tiers(made: Comparison) -> Table:
    learning, asked = made.convergence, Metric.CONVERGENCE in made.asked
    rows: list[list[str | Cell]] = []
    for tier in learning.tiers:
        first = " (the first that fails)" if tier.tier == learning.first_failing_tier else ""
        margin = "" if tier.margin is None else f"{tier.margin:.3g}"
        word = Cell(tier.status.value.replace("_", " "), _TONES[tier.status])
        rows.append([word, f"{tier.tier}{first}", tier.message, margin])
    outcome = "No tier fails."
    if failing := learning.first_failing_tier:
        rest = "" if failing == TIERS[-1] else "; what comes after it is not asked"
        outcome = f"{failing} is the first tier that fails{rest}."
    scope = "".join(f" {as_sentence(limit.message)}" for limit in learning.scope)
    return Table(
        f"Convergence{'' if asked else ', which was not asked'}: {learning.status.replace('_', ' ')}",
        ["answer", "tier", "what was found", "margin"],
        rows,
        f"{outcome}{scope} Learning is judged apart from rates; neither vouches for the other.",
        folded=not asked,
    )


def as_sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _losses(made: Comparison) -> Iterator[Table]:
    if Metric.CONVERGENCE not in made.asked:
        return
    note = "Nats a token, the mean of each side's runs; steps counted from 0, as logs of the field do."
    for title, losses in (
        ("Losses side by side", made.convergence.losses),
        ("Losses of evaluations", made.convergence.evaluations[-_EVALUATIONS:]),
    ):
        sides = (("target", [at.target for at in losses]), ("baseline", [at.baseline for at in losses]))
        rows = [[name, *("-" if value is None else f"{value:.4f}" for value in values)] for name, values in sides]
        if losses:
            yield Table(title, ["side", *(f"step {at.step:,}" for at in losses)], rows, note)


def _time_to_loss(made: Comparison) -> Iterator[Table]:
    reached, title = made.time_to_loss, "Time to a loss"
    if not isinstance(reached, TimeToLoss):
        if Metric.CONVERGENCE in made.asked:
            yield Table(title, [], [], f"Not known: {reached.message}.")
        return
    basis = "between runs" if reached.interval == "runs" else "inside these runs, which says nothing of another run"
    rows: list[list[str | Cell]] = [
        [side.name, number(own.seconds), *map(_known, (own.energy_kwh, own.cost), (own.energy_reason, own.cost_reason))]
        for side, own in ((made.target, reached.target), (made.baseline, reached.baseline))
    ]
    around = "without an interval, since the step times do not tell how far they spread"
    if reached.low is not None and reached.high is not None:
        around = f"{LEVEL:.0%} interval {reached.low:.4f} to {reached.high:.4f} {basis}"
    yield Table(
        f"{title} of {reached.loss:.4g}",
        ["side", "seconds", "energy, kWh", "cost, by the price sheet"],
        rows,
        f"Target over baseline {reached.ratio:.4f}, {around}: below 1 the target is there first. "
        "The loss is the lowest of those that all runs reach.",
    )


def _known(figure: float | None, reason: Reason | None) -> str:
    return f"unknown: {reason.message}" if reason else f"{figure:.3g}"


def _diagnoses(made: Comparison) -> list[Points]:
    points = [
        Point(
            as_sentence(cause.message),
            [
                f"Rests on: {'; '.join(cause.evidence)}.",
                f"To confirm: {cause.confirm}. ({cause.code.name}, {cause.side})",
            ],
        )
        for cause in made.diagnoses
    ]
    note = "Every cause there is evidence for, the most telling first."
    alike = made.convergence.status == "equivalent"
    title = "What else the records tell" if alike else "What explains the difference"
    return [Points(title, points, note)] if points else []


def diagnosed_levels(made: Comparison) -> Iterator[Level]:
    """Floors of made data and first losses that a diagnosis recognised, to be drawn beside the curves."""
    causes = {(cause.code, cause.side) for cause in made.diagnoses}
    for side in (made.target, made.baseline):
        if side.subjects[0].expected("first_loss") is not None:
            causes.discard((untrained_loss.CODE, side.name))  # what is predicted is drawn already
    if not any(code in (counting_data.CODE, uniform_data.CODE, untrained_loss.CODE) for code, _ in causes):
        return
    for name, ended in endings(Pair(made.target, made.baseline, made.contract)):
        if (counting_data.CODE, name) in causes:
            yield Level("floor of counting data", counting_data.FLOOR)
        if (uniform_data.CODE, name) in causes and (vocabulary := uniform_vocabulary(ended[0].subject)):
            yield Level(f"floor of uniform tokens, ln {vocabulary.size:,}", vocabulary.floor)
        if (untrained_loss.CODE, name) in causes and len(solutions := untrained_loss.solve(ended[0]).starts) == 1:
            yield Level(f"untrained {name}, by its first loss", solutions[0].loss)
