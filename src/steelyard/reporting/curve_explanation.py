"""The explanation of two loss curves: the problem in numbers, what to do, what to expect, what is shown."""

from collections.abc import Iterator, Sequence

from steelyard.comparison import Comparison, Metric
from steelyard.comparison.contract import Agreement
from steelyard.comparison.expectations import expectations
from steelyard.comparison.headline import line_of
from steelyard.comparison.intervals import FEWEST
from steelyard.comparison.missing import Missing
from steelyard.comparison.next_step import next_step
from steelyard.comparison.phrases import each, listed, percent, plain_percent, plural
from steelyard.comparison.reduction import FAULTY, GENERATED, Learning, Reduction, observed
from steelyard.comparison.remedies import asked_or_apart, remedies, to_fix
from steelyard.comparison.tiers import Answer, learning_speed, level
from steelyard.experiment.policy import Effect
from steelyard.reporting.causes import written
from steelyard.reporting.page import Cell, Point, Points, Table, Tone

_MOST_OPTIONS = 6
_YES, _NO = Cell("shown", Tone.GOOD), Cell("no", Tone.BAD)
_MAYBE, _OPEN = Cell("possible", Tone.UNSURE), Cell("not shown", Tone.UNSURE)
_UNEVEN = ((Agreement.DIFFERENT, "differ"), (Agreement.UNKNOWN, "are unknown"))
_Claim = tuple[Cell, str, str]
"""The result, the claim, and why."""


def problem(made: Comparison) -> Points | None:
    """Which side learns and which does not, in numbers; None if nothing is to be explained."""
    sides = made.convergence.reductions
    if _folded(made) or not sides:
        return None
    broken = made.convergence.status == "not_equivalent" or any(each.learning in FAULTY for each in sides)
    points = [Point(written(reason.message, made)) for reason in observed(made.sides, sides)]
    return Points("The problem" if broken else "The losses", points)


def reduction_tables(made: Comparison) -> Iterator[Table]:
    """How far each loss falls, next to how far its data lets it fall."""
    sides = made.convergence.reductions
    if not asked_or_apart(made) or not sides:
        return
    note = (
        "A reduction in percent misleads: the floor of the data limits it. The end is the median of the last ten "
        "records; of fewer than 20 records it is the last."
    )
    if any(each.learning == Learning.COUNTS for each in sides):
        note += " On counting data it is the mean of the last quarter."
    if any(each.floor is None for each in sides):
        note += " The floor of text is unknown."
    columns = ["side", "first loss", "end", "reduction", "largest possible", "loss floor", "end above the floor"]
    rows = [_reduction_row(each) for each in sides]
    yield Table("Loss reduction and loss floor", columns, rows, note, _folded(made))


def _folded(made: Comparison) -> bool:
    """Curves without a fault, or that were not asked about, are explained on demand."""
    return Metric.CONVERGENCE not in made.asked or not to_fix(made)


def _reduction_row(of: Reduction) -> list[str | Cell]:
    first, last = of.first_steps
    steps = f"step {last:,}" if first == last else f"mean of steps {first:,} to {last:,}"
    floor = f"{of.floor.figure} ({of.floor.words})" if of.floor else "unknown"
    above = "unknown" if of.above_floor is None else f"{of.above_floor:.4f}"
    possible = "unknown" if of.possible is None else f"{of.possible:.2%}"
    ends = f"{of.first:.5g} ({steps})", f"{of.end:.5g} (step {of.end_step:,})"
    return [of.called, *ends, f"{of.share:.2%}", possible, floor, above]


def explanations(made: Comparison) -> list[Points | Table]:
    """What to do next, what to expect after it, and what the comparison shows."""
    if not asked_or_apart(made):
        return []
    asked, folded = Metric.CONVERGENCE in made.asked, _folded(made)
    expected = [Point(written(reason.message, made)) for reason in expectations(made)]
    rows: list[list[str | Cell]] = [list(claim) for claim in _claims(made)]
    parts = (
        Points("What to do next", list(_to_do(made)), folded=not asked),
        Points("What to expect after the fix", expected, folded=folded),
        Table("What the comparison shows", ["result", "claim", "why"], rows, folded=folded),
    )
    return [part for part in parts if isinstance(part, Table) or part.points]


def _to_do(made: Comparison) -> Iterator[Point]:
    """The remedies; then what the comparison of these runs still needs."""
    fixes = remedies(made)
    for remedy in fixes:
        yield Point(written(remedy.reason.message, made), commands=remedy.commands)
    step = next_step(made)
    if step is None:
        return
    settings_given = fixes and made.convergence.status == "not_comparable"
    commands = () if settings_given or step.accepts else tuple(dict.fromkeys(step.commands))
    if commands or (step.words and not fixes):
        words = f": {step.words}." if step.words else ":"
        yield Point(f"For an answer about these runs{words}", commands=commands)
    if accepting := step.commands if step.accepts else step.instead:
        yield Point("Or compare these runs as they are, with a caveat and your reason:", commands=accepting)
    if step.missing:
        yield _missing(step.missing)


def _missing(settings: Sequence[Missing]) -> Point:
    """The options that supply what is not recorded; of many only the first."""
    options = [f"`{each.option}`" for each in settings[:_MOST_OPTIONS]]
    if more := len(settings) - len(options):
        options.append(f"{plural(more, 'more setting')}: `compare -v` prints the options.")
    return Point(f"{plural(len(settings), 'setting')} not recorded: add the true values to `compare`.", options)


def _claims(made: Comparison) -> Iterator[_Claim]:
    for metric in made.asked:
        if metric != Metric.CONVERGENCE:
            yield _of_ratio(made, metric)
    yield _of_curves(made)
    for side in made.convergence.reductions:
        if side.learning in GENERATED:
            data = f"its data is {side.floor.words}" if side.floor else "its data repeats, or it is degenerate"
            yield _NO, f"{side.called} learns text", data
    yield from _of_seeds(made)
    if to_fix(made):
        yield from _of_platforms(made)
    steps = max((side.end_step for side in made.convergence.reductions), default=0)
    measured = "evaluation losses" if made.convergence.evaluations else "training losses, without evaluations,"
    why = f"the runs have {measured} of {plural(steps, 'step')}" if steps else "too few losses are recorded"
    yield _OPEN, "one side trains better models", why


def _of_ratio(made: Comparison, metric: Metric) -> _Claim:
    line, ratio = line_of(made, metric), made.ratios[metric]
    decided = ratio is not None and ratio.decided
    return (_YES, line.answer, line.detail) if decided else (_OPEN, f"a difference in {metric.value}", line.detail)


def _of_curves(made: Comparison) -> _Claim:
    names = listed([side.called for side in made.sides])
    results = {"equivalent": _YES, "not_equivalent": _NO}
    result = results.get(made.convergence.status, _OPEN)
    return result, f"{names} converge alike", line_of(made, Metric.CONVERGENCE).detail


def _of_seeds(made: Comparison) -> Iterator[_Claim]:
    """Whether other seeds could explain the difference."""
    claim = "the seeds explain the difference"
    curves = made.convergence
    failed = curves.first_failing_tier
    deciding = (tier for tier in curves.tiers if tier.tier == failed or (not failed and tier.status == Answer.UNKNOWN))
    tier = next((tier for tier in deciding if tier.tier in (level.NAME, learning_speed.NAME)), None)
    if to_fix(made) and any(side.learning == Learning.NOTHING_TO_LEARN for side in curves.reductions):
        yield _NO, claim, "the floor of random tokens is the same for every seed"
    elif tier is not None and tier.observed is not None and (failed or tier.by_chance):
        chance = f", and seeds explain up to {plain_percent(round(tier.by_chance, 3))}" if tier.by_chance else ""
        what = "levels" if tier.tier == level.NAME else "tokens to common losses"
        apart = f"the {what} differ by {percent(abs(tier.observed - 1))}{chance}"
        yield _NO if failed else _MAYBE, claim, apart
    elif failed and curves.status == "not_equivalent" and min(curves.known_seeds) >= FEWEST:
        yield _NO, claim, f"{failed} fails over {each(curves.known_seeds, 'seed')}"
    elif to_fix(made):
        seeds = each(curves.known_seeds, "known seed") if max(curves.known_seeds) else "seeds are not recorded"
        yield _OPEN, claim, f"the levels of the losses were not compared; {seeds}"


def _of_platforms(made: Comparison) -> Iterator[_Claim]:
    """Whether the difference comes from the GPUs or the framework."""
    clauses = {clause.dotted: clause for clause in made.contract}
    gpu, framework = (clauses[key].status == Agreement.DIFFERENT for key in ("platform.gpu", "platform.framework"))
    if not gpu and not framework:
        return
    claim = f"the {'GPUs' if gpu else 'frameworks'} explain the difference"
    others = ["the frameworks differ"] if gpu and framework else []
    shaping = [clause for clause in made.contract if clause.governs.get(Metric.CONVERGENCE) == Effect.BLOCKS]
    counts = [(sum(clause.status == status for clause in shaping), words) for status, words in _UNEVEN]
    if uneven := [f"{count} {words}" for count, words in counts if count]:
        others.append(f"of {plural(len(shaping), 'setting')} that shape a curve, {listed(uneven)}")
    yield _OPEN, claim, "; ".join(others) or "software versions, kernels and the order of the data may differ"
