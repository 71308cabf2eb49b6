"""Convergence: the tiers, the losses, the time to a loss, and the levels that diagnoses add to the plot."""

from collections.abc import Iterator

from steelyard.comparison import Comparison, Metric
from steelyard.comparison.diagnoses import counting_data, endings, uniform_data, untrained_loss
from steelyard.comparison.intervals import LEVEL
from steelyard.comparison.tiers import TIERS, Answer, Pair
from steelyard.comparison.time_to_loss import TimeToLoss
from steelyard.reasons import Reason
from steelyard.reporting.curves import number
from steelyard.reporting.page import Cell, Level, Table, Tone, as_sentence, typeset
from steelyard.reporting.sides import side_names
from steelyard.verdict.floors import uniform_vocabulary

_TONES = {Answer.PASS: Tone.GOOD, Answer.FAIL: Tone.BAD, Answer.UNKNOWN: Tone.UNSURE, Answer.NOT_APPLICABLE: Tone.PLAIN}

_EVALUATIONS = 8
"""The last ones; a table has room for no more."""


def learning_blocks(made: Comparison) -> list[Table]:
    asked = Metric.CONVERGENCE in made.asked
    return [_tiers(made, asked), *(_losses(made) if asked else ()), *_time_to_loss(made, asked)]


def _tiers(made: Comparison, asked: bool) -> Table:
    learning = made.convergence
    rows: list[list[str | Cell]] = []
    for tier in learning.tiers:
        first = " (first failing tier)" if tier.tier == learning.first_failing_tier else ""
        margin = "" if tier.margin is None else f"{tier.margin:.3g}"
        word = Cell(tier.status.value.replace("_", " "), _TONES[tier.status])
        rows.append([word, f"{tier.tier}{first}", typeset(tier.message), margin])
    outcome = "No tier fails."
    if failing := learning.first_failing_tier:
        rest = "" if failing == TIERS[-1] else " Later tiers are not tested."
        outcome = f"{failing} is the first failing tier.{rest}"
    scope = "".join(f" {as_sentence(limit.message, capital=True)}" for limit in learning.scope)
    status = learning.status.replace("_", " ")
    return Table(
        f"Convergence: {status}" if asked else f"Not asked: convergence ({status})",
        ["result", "tier", "finding", "margin"],
        rows,
        f"{outcome}{scope}",
        folded=not asked or learning.status == "not_comparable",
    )


def _losses(made: Comparison) -> Iterator[Table]:
    note = "Nats per token, mean of the runs of each side. Steps are counted from 1, as in every record."
    for title, losses in (
        ("Losses side by side", made.convergence.losses),
        ("Losses of evaluations", made.convergence.evaluations[-_EVALUATIONS:]),
    ):
        sides = zip(side_names(made), ([at.target for at in losses], [at.baseline for at in losses]), strict=True)
        rows = [[name, *("-" if value is None else f"{value:.4f}" for value in values)] for name, values in sides]
        if losses:
            yield Table(title, ["side", *(f"step {at.step + 1:,}" for at in losses)], rows, note)


def _time_to_loss(made: Comparison, asked: bool) -> Iterator[Table]:
    result, title = made.time_to_loss, "Time to loss"
    if not isinstance(result, TimeToLoss):
        if asked and made.convergence.status != "not_comparable":
            yield Table(title, [], [], f"Unknown: {result.message}.")
        return
    names = side_names(made)
    rows: list[list[str | Cell]] = [
        [name, number(own.seconds), *map(_known, (own.energy_kwh, own.cost), (own.energy_reason, own.cost_reason))]
        for name, own in zip(names, (result.target, result.baseline), strict=True)
    ]
    interval = "no CI, because the spread of the step times is unknown"
    if result.low is not None and result.high is not None:
        basis = "between runs" if result.interval == "runs" else "within these runs; other runs may differ"
        interval = f"{LEVEL:.0%} CI {result.low:.4g} to {result.high:.4g} {basis}"
    note = f"{names[0]} takes {result.ratio:.4g} times as long as {names[1]} ({interval})."
    yield Table(
        f"{title} {result.loss:.4g}",
        ["side", "seconds", "energy, kWh", "cost, by the price sheet"],
        rows,
        f"{note} This is the lowest loss that all runs reach.",
        folded=not asked,
    )


def _known(figure: float | None, reason: Reason | None) -> str:
    return f"unknown: {reason.message}" if reason else f"{figure:.3g}"


def diagnosed_levels(made: Comparison) -> Iterator[Level]:
    """Floors of synthetic data and first losses from diagnoses, to be drawn with the curves."""
    causes = {(cause.code, cause.side) for cause in made.diagnoses}
    for side in (made.target, made.baseline):
        if side.subjects[0].expected("first_loss") is not None:
            causes.discard((untrained_loss.CODE, side.name))  # the predicted first loss is drawn already
    if not any(code in (counting_data.CODE, uniform_data.CODE, untrained_loss.CODE) for code, _ in causes):
        return
    called = dict(zip(("target", "baseline"), side_names(made), strict=True))
    for name, ended in endings(Pair(made.target, made.baseline, made.contract)):
        if (counting_data.CODE, name) in causes:
            yield Level("floor of counting data", counting_data.FLOOR, short=called[name])
        if (uniform_data.CODE, name) in causes and (vocabulary := uniform_vocabulary(ended[0].subject)):
            yield Level(f"floor of uniform tokens, ln {vocabulary.size:,}", vocabulary.floor, short=called[name])
        if (untrained_loss.CODE, name) in causes and len(solutions := untrained_loss.solve(ended[0]).starts) == 1:
            loss = solutions[0].loss
            yield Level(f"untrained {called[name]}, from its first loss", loss, short=called[name])
