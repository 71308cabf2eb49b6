"""The answer of a comparison in one line per asked metric."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from steelyard.comparison.codes import SETTINGS_UNKNOWN, counted
from steelyard.comparison.comparison import Comparison
from steelyard.comparison.contract import Comparability
from steelyard.comparison.convergence import Convergence
from steelyard.comparison.diagnoses import parting
from steelyard.comparison.intervals import Outcome
from steelyard.comparison.phrases import compared, each, figure, listed, percent, plain_percent, plural, signed
from steelyard.comparison.ratios import Ratio
from steelyard.comparison.tiers import Answer, first_loss, stability
from steelyard.experiment.policy import Metric
from steelyard.reasons import Reason


@dataclass(frozen=True, slots=True)
class Phrases:
    """How the ratio of a metric reads; `{0}` and `{1}` are the target and the baseline."""

    more: str
    less: str
    """Words for a target figure above and below that of the baseline."""
    decided: str
    equal: str
    observed: str
    """Also with the figures of both sides, `{2}` and `{3}`."""
    unit: str
    figure: Callable[[float], str] = figure


PHRASES = {
    Metric.THROUGHPUT: Phrases(
        "faster",
        "slower",
        decided="{0} is {difference} than {1}",
        equal="{0} and {1} are equally fast",
        observed="{0} runs at {2} tokens/s per GPU, {1} at {3}",
        unit=" tokens/s per GPU",
    ),
    Metric.MEMORY: Phrases(
        "more memory",
        "less memory",
        decided="{0} needs {difference} than {1}",
        equal="{0} and {1} need equal memory",
        observed="{0} needs {2} GiB per GPU, {1} needs {3}",
        unit=" GiB per GPU",
    ),
    Metric.FLOPS: Phrases(
        "higher MFU",
        "lower MFU",
        decided="{0} has {difference} than {1}",
        equal="{0} and {1} have equal MFU",
        observed="{0} has {2} MFU, {1} has {3}",
        unit=" MFU",
        figure=percent,
    ),
}
_NAMES = {Metric.FLOPS: "FLOPs utilization"}


class Line(NamedTuple):
    """One line of the headline."""

    metrics: tuple[Metric, ...]
    answer: str
    detail: str

    def __str__(self) -> str:
        return f"{self.answer} {self.detail}".strip()


def headline(made: Comparison) -> str:
    """One line per asked metric; metrics with the same answer share a line."""
    return "\n".join(map(str, lines(made)))


def lines(made: Comparison) -> list[Line]:
    metrics_of: dict[_Answer, list[Metric]] = {}
    for metric in made.asked:
        metrics_of.setdefault(_answer(made, metric), []).append(metric)
    return [_line(answer, metrics, len(made.asked) > 1) for answer, metrics in metrics_of.items()]


def line_of(made: Comparison, metric: Metric) -> Line:
    """The answer of one metric, asked or not."""
    return _line(_answer(made, metric), [metric], False)


class _Answer(NamedTuple):
    status: str
    """Empty for a ratio."""
    ratio: str
    sentence: str


def _line(answer: _Answer, metrics: Sequence[Metric], with_names: bool) -> Line:
    names = listed([_NAMES.get(metric, metric.value) for metric in metrics]) if with_names else ""
    head = " ".join(filter(None, (names, answer.status)))
    head = f"{head[0].upper()}{head[1:]}:" if head else ""
    return Line(tuple(metrics), " ".join(filter(None, (head, answer.ratio))), answer.sentence)


def _answer(made: Comparison, metric: Metric) -> _Answer:
    ruling, curves = made.comparable[metric], made.convergence
    if ruling.status == Comparability.NOT_COMPARABLE:
        return _Answer("not comparable", "", short(ruling.reasons[0]))
    if metric == Metric.CONVERGENCE and (ruling.holds or curves.status == "not_equivalent"):
        return _of_curves(made, curves)
    ratio = made.ratios.get(metric)
    if not ruling.holds or ratio is None:
        return _Answer("comparability unknown", "", short(ruling.reasons[0]))
    return _Answer("", *ratio_sentence(made, metric, ratio))


def short(reason: Reason) -> str:
    """The message of a reason; of several unknown settings it names one."""
    return counted(reason) if reason.code is SETTINGS_UNKNOWN else reason.message


def ratio_sentence(made: Comparison, metric: Metric, ratio: Ratio) -> tuple[str, str]:
    """A decided answer or an empty text, and the figures of both sides."""
    phrases, of_memory = PHRASES[metric], metric == Metric.MEMORY
    names = made.target.called, made.baseline.called
    figures = [phrases.figure(value) for value in (ratio.target_figure, ratio.baseline_figure)]
    bounds = (ratio.low, ratio.high) if ratio.interval == "runs" else (None, None)
    change, low, high = (
        1 / value if value and of_memory else value for value in (ratio.value, *(bounds[::-1] if of_memory else bounds))
    )
    assert change is not None
    runs = each((ratio.target_runs, ratio.baseline_runs), "run")
    if not ratio.decided:
        basis = f"{signed(change, low, high)}{f', {runs}' * (low is not None)}"
        observed = _per_device(phrases.observed, made).format(*names, *figures)
        basis = f"{ratio.kind.replace('_', ' ')}; {basis}" if ratio.kind else basis
        return "", f"{observed} ({basis}). {_undecided(ratio, runs)}"
    rates = f"{figures[0]} vs {figures[1]}{_per_device(phrases.unit, made)}"
    rates += f" ({ratio.kind.replace('_', ' ')})" if ratio.kind else ""
    margin = plain_percent(ratio.margin)
    if ratio.outcome == Outcome.EQUIVALENT:
        return f"{phrases.equal.format(*names)} within {margin}", f"({signed(change, low, high)}, {runs}): {rates}"
    difference, interval = compared(change, low, high, phrases.more, phrases.less)
    sure = ratio.outcome in (Outcome.BETTER, Outcome.WORSE)
    doubt = "" if sure else f"; the difference may be below {margin}"
    return phrases.decided.format(*names, difference=difference), f"({interval}, {runs}): {rates}{doubt}"


def _per_device(text: str, made: Comparison) -> str:
    """A template with `per GPU`; with `per rank` where all runs are on CPUs."""
    on_cpus = all(subject.on_cpu for side in made.sides for subject in side.subjects)
    return text.replace("per GPU", "per rank") if on_cpus else text


def _undecided(ratio: Ratio, runs: str) -> str:
    match ratio.outcome:
        case Outcome.INCONCLUSIVE if ratio.more_runs:
            return f"Undecided: take {plural(ratio.more_runs, 'more run')} per side, then compare all"
        case Outcome.INCONCLUSIVE:
            return "Undecided, and more runs will hardly help"
        case Outcome.NO_SPREAD:
            why = "Runs with identical figures"
        case Outcome.UNSETTLED:
            why = "Step times had not settled"
        case _:
            why = runs.capitalize()
    return f"{why}: an observation, not a result"


def _of_curves(made: Comparison, curves: Convergence) -> _Answer:
    decisive = next((tier for tier in curves.tiers if tier.tier == curves.first_failing_tier), None)
    if decisive is not None:
        step = diverging_step(made)
        return _Answer(f"not equivalent{f' from step {step:,}' if step else ''}", "", short(decisive.reason))
    open_ = next((tier for tier in curves.tiers if tier.status == Answer.UNKNOWN), None)
    if open_ is not None:
        return _Answer(f"undecided ({open_.tier})", "", short(open_.reason))
    passed = sum(tier.status == Answer.PASS for tier in curves.tiers)
    applying = "" if passed == len(curves.tiers) else " that apply"
    seeds = each(curves.known_seeds, "seed") if max(curves.known_seeds) else "seeds not recorded"
    return _Answer("equivalent", "", f"all {passed} tiers{applying} pass ({seeds})")


def diverging_step(made: Comparison) -> int | None:
    """The first step at which the curves differ, if the records show one."""
    return next(_diverging_steps(made), None)


def _diverging_steps(made: Comparison) -> Iterator[int]:
    yield from (cause.values["first"] for cause in made.diagnoses if cause.code is parting.CODE)
    for tier in made.convergence.tiers:
        if tier.reason.code is stability.NO_LOSS_FROM:
            yield tier.reason.values["step"]
        elif tier.tier == first_loss.NAME and tier.status == Answer.FAIL:
            yield 1


def further_reasons(made: Comparison) -> tuple[list[Reason], list[Reason]]:
    """Reasons that the headline does not give, without repetitions: those that decide or limit the answer, the rest."""
    rulings = [made.comparable[metric] for metric in made.asked]
    ratios = [ratio for metric in made.asked if (ratio := made.ratios.get(metric)) is not None]
    given = [ruling.reasons[0] for ruling in rulings if not ruling.holds]
    keys = {key for reason in given for key in reason.keys}

    def distinct(reasons: Iterable[Reason]) -> Iterator[Reason]:
        for reason in reasons:
            if reason not in given and not (reason.keys and keys.issuperset(reason.keys)):
                given.append(reason)
                keys.update(reason.keys)
                yield reason

    decisive = [reason for ruling in rulings for reason in ruling.decisive]
    notes = [note for ratio in ratios for note in ratio.notes]
    return list(distinct((*decisive, *notes))), list(
        distinct(reason for ruling in rulings for reason in ruling.reasons)
    )


def difference_of(made: Comparison, metric: Metric) -> str:
    """A metric that was not asked, in a word or a number."""
    ruling, ratio = made.comparable[metric], made.ratios.get(metric)
    if metric == Metric.CONVERGENCE and (ruling.holds or made.convergence.status == "not_equivalent"):
        return made.convergence.status.replace("_", " ")
    if ratio is None:
        return ruling.status.value.replace("_", " ")
    return signed(1 / ratio.value if metric == Metric.MEMORY else ratio.value)
