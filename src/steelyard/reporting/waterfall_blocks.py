"""The waterfall of a ladder in words, as a plot and as a table."""

from collections.abc import Iterator, Sequence

from steelyard.campaign.waterfall import Step, Waterfall
from steelyard.comparison.codes import shown
from steelyard.comparison.shares import Factor
from steelyard.reasons import Code, Reason
from steelyard.reporting.curves import number, per_device
from steelyard.reporting.page import Answer, Block, Panel, Point, Points, Stage, Table, Tone, WaterfallPlot, as_sentence
from steelyard.verdict import Subject

TITLE = "Waterfall"
_ALIKE = 1e-9
_ORDER = "Changes are made in this order; where they interact, another order gives other factors."


def headline(made: Waterfall) -> str:
    """`h100 to mi300x: +42.0% (95% CI +40.1 to +44.0%)`."""
    sides = f"{made.sides.baseline} to {made.sides.target}"
    return f"{sides}{'' if made.target else ', all changes'}: {change_of(made.gap)}"


def parts(made: Waterfall) -> str:
    """`batch +10.1% (95% CI +8.2 to +12.0%); the rest (hardware and kernels) +7.0% (…)`."""
    changes = [step for step in made.steps if step is not made.rest]
    rest = [f"the rest ({made.rest.name}) {change_of(made.rest.factor)}"] if made.rest else []
    return "; ".join([*(f"{step.name} {change_of(step.factor)}" for step in changes), *rest])


def change_of(factor: Factor) -> str:
    """`+10.1% (95% CI +8.2 to +12.0%)`, with `within noise` if the interval contains 1."""
    return f"{figure_of(factor)}{', within noise' if factor.within_noise else ''}"


def figure_of(factor: Factor) -> str:
    if factor.interval is None:
        return f"{factor.value - 1:+.1%} (no interval)"
    low, high = factor.interval
    return f"{factor.value - 1:+.1%} (95% CI {100 * low - 100:+.1f} to {high - 1:+.1%})"


def answer(made: Waterfall | Reason) -> Answer:
    """The gap and its parts, for the top of a report."""
    if isinstance(made, Reason):
        return Answer("unknown", Tone.UNSURE, as_sentence(made.message, capital=True))
    tone = Tone.UNSURE if made.gap.interval is None or made.gap.within_noise else Tone.NOTE
    return Answer(f"{made.gap.value - 1:+.1%}", tone, _sentences(made))


def _sentences(made: Waterfall) -> str:
    return f"{headline(made)}. Factor by factor: {as_sentence(parts(made))}"


def blocks(made: Waterfall | Reason, subjects: Sequence[Subject]) -> list[Block]:
    if isinstance(made, Reason):
        return []
    product = " x ".join(f"{step.factor.value:.4g}" for step in made.steps)
    note = (
        f"Factors multiply: {product} = {made.gap.value:.4g}. Each bar starts where the one before ends. Whiskers are "
        f"the 95% CI of one factor alone. {_ORDER}"
    )
    points = [*(Point(as_sentence(text)) for text in _remarks(made)), *_limits(made)]
    limits = [Points("Limits of the waterfall", points)] if points else []
    return [Panel(TITLE, [_plot(made, subjects)], note), _changes(made), *limits]


def _plot(made: Waterfall, subjects: Sequence[Subject]) -> WaterfallPlot:
    unit = per_device("tokens/s per GPU", subjects)
    stages = [
        Stage(made.sides.baseline, f"{number(made.rungs[0].rate)} {unit}", "", 1.0, 1.0, tone=Tone.NOTE, is_total=True)
    ]
    at = 1.0
    for step in made.steps:
        stages.append(_stage(step, at))
        at *= step.factor.value
    low, high = made.gap.interval or (None, None)
    name, last = (made.sides.target, made.target) if made.target else ("all changes", made.rungs[-1])
    words = f"{number(last.rate)} {unit}{', within noise' if made.gap.within_noise else ''}"
    stages.append(Stage(name, figure_of(made.gap), words, 1.0, made.gap.value, low, high, Tone.NOTE, is_total=True))
    return WaterfallPlot(
        title=f"From {made.sides.baseline} to {made.sides.target}",
        summary=_sentences(made),
        stages=stages,
        samples=_table(made),
        unit=f"{unit} as a multiple of {made.sides.baseline}",
    )


def _stage(step: Step, at: float) -> Stage:
    factor = step.factor
    low, high = factor.interval or (None, None)
    ends = (None if low is None else at * low, None if high is None else at * high)
    tone = Tone.GOOD if factor.value > 1 else Tone.BAD
    tone = Tone.UNSURE if factor.within_noise else tone
    words = ", ".join(filter(None, ["within noise" if factor.within_noise else "", _share(factor)]))
    return Stage(step.name, figure_of(factor), words, at, at * factor.value, *ends, tone)


def _share(factor: Factor) -> str:
    """`27% of the gap (95% CI 20 to 33%)`."""
    if (share := factor.share) is None:
        return ""
    return f"{share.value:.0%} of the gap (95% CI {100 * share.low:.0f} to {share.high:.0%})"


def _table(made: Waterfall) -> Table:
    total = Step("gap" if made.target else "all changes", (), made.gap, None)
    rows = [
        [
            step.name,
            f"{step.factor.value:.4f}",
            "none" if interval is None else f"{interval[0]:.4f} to {interval[1]:.4f}",
            "" if share is None else f"{share.value:.1%}",
            "" if share is None else f"{100 * share.low:.1f} to {share.high:.1%}",
            "within noise" if step.factor.within_noise else "",
        ]
        for step in (*made.steps, total)
        for interval, share in [(step.factor.interval, step.factor.share)]
    ]
    columns = ["step", "factor", "95% CI", "share of the gap's logarithm", "95% CI of the share", "remark"]
    return Table("Factors in numbers", columns, rows, folded=True)


def _changes(made: Waterfall) -> Table:
    rows = [
        [step.name, change.key, shown(change.before), shown(change.after)]
        for step in made.steps
        for change in step.changes
    ]
    note = "The rest contains everything in which the target still differs." if made.target else ""
    return Table("What each step changes", ["step", "setting", "before", "after"], rows, note)


def _remarks(made: Waterfall) -> Iterator[str]:
    """What a reader needs to know about the factors."""
    for step in made.steps:
        if step.flops is not None and abs(step.flops - 1) > _ALIKE:
            rate = step.factor.value * step.flops
            yield (
                f"{step.name}: a token needs {step.flops:.3g} times the FLOPs, so FLOP/s change by {rate - 1:+.1%} "
                f"and tokens/s by {step.factor.value - 1:+.1%}"
            )
    if made.again is not None:
        yield f"The first rung differs from the runs of {made.sides.baseline} by {change_of(made.again)}"
    if made.warm_up is not None:
        yield f"Counting the warm-up would change the gap by a further {change_of(made.warm_up)}"


def _limits(made: Waterfall) -> Iterator[Point]:
    """The notes, those of one kind together."""
    by_code: dict[Code, list[str]] = {}
    for note in made.notes:
        by_code.setdefault(note.code, []).append(as_sentence(note.message, capital=True))
    for first, *more in by_code.values():
        yield Point(f"{first} And {len(more)} more." if more else first, more)
