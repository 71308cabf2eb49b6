"""What a comparison claims, a sentence for each thing that was asked, and what it does not claim."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from steelyard.comparison import Comparability, Comparison, Metric, Ratio
from steelyard.comparison.codes import sentence
from steelyard.comparison.intervals import FEWEST, Outcome
from steelyard.comparison.tiers import Answer as TierAnswer
from steelyard.comparison.time_to_loss import TimeToLoss
from steelyard.errors import Exit
from steelyard.reasons import Effect
from steelyard.records import unstamped
from steelyard.reporting.page import Answer, Point, Points, Tone
from steelyard.verdict import Status, Subject, Verdict

NAMES = {
    Metric.THROUGHPUT: "Throughput",
    Metric.MEMORY: "Memory",
    Metric.FLOPS: "FLOPs utilization",
    Metric.CONVERGENCE: "Convergence",
}
DEFINITIONS = {
    Metric.THROUGHPUT: "tokens/s a GPU, target over baseline",
    Metric.MEMORY: "peak memory, baseline over target",
    Metric.FLOPS: "MFU, target over baseline",
}
_TARGET = {Metric.THROUGHPUT: "The target is", Metric.MEMORY: "The target", Metric.FLOPS: "The target's GPUs are"}
_ALIKE_TONES = {"equivalent": Tone.GOOD, "not_equivalent": Tone.BAD, "not_comparable": Tone.BAD, "unknown": Tone.UNSURE}
_TOGETHER = {
    Exit.GOOD: "decided",
    Exit.FAILED: "not equivalent",
    Exit.NOT_COMPARABLE: "not comparable",
    Exit.UNKNOWN: "not decided",
}
_TONE_TOGETHER = {Exit.GOOD: Tone.GOOD, Exit.UNKNOWN: Tone.UNSURE}
_CLAIM = {Metric.THROUGHPUT: "is faster", Metric.MEMORY: "needs less memory", Metric.FLOPS: "uses its GPUs better"}
_MOST_NAMED = 2
"""Runs of a side, in a title."""


def answers(made: Comparison) -> list[Answer]:
    """One for each metric that was asked, in the order it was asked."""
    return [_of_curves(made) if metric == Metric.CONVERGENCE else _of_ratio(metric, made) for metric in made.asked]


def together(made: Comparison, given: list[Answer]) -> Answer:
    """The one word a reader came for; of several answers that differ, the worst, since each stands by itself."""
    first, *others = given
    if not others:
        return first
    word, worst = first.word, ""
    if any(answer.word != first.word for answer in others):
        word, worst = _TOGETHER[made.exit], "That is the worst of what was asked. " * (made.exit != Exit.GOOD)
    differ = any(answer.tone != first.tone for answer in others)
    tone = _TONE_TOGETHER.get(made.exit, Tone.BAD) if differ else first.tone
    *names, last = [metric.value for metric in made.asked]
    other = "neither vouches for the other" if len(given) == 2 else "none vouches for another"
    words = f"{worst}{', '.join(names).capitalize()} and {last} are answered one by one, and {other}."
    return Answer("", word, tone, words)


def tone_of(ratio: Ratio) -> Tone:
    """What is decided for the target or says that both are alike is good; what is not decided is a note."""
    if ratio.forced:
        return Tone.BAD
    if not ratio.decided:
        return Tone.UNSURE if ratio.interval == "runs" and ratio.low is not None else Tone.NOTE
    return Tone.NOTE if ratio.outcome.below else Tone.GOOD


def around(ratio: Ratio) -> str:
    """The interval in words, with what it is an interval of; empty where there is none."""
    if ratio.low is None or ratio.high is None:
        return ""
    basis = f"between {ratio.target_runs} and {ratio.baseline_runs} runs"
    if ratio.interval != "runs":
        basis = "inside these runs, which says nothing of another run"
    return f"{ratio.level:.0%} interval {ratio.low:.4f} to {ratio.high:.4f} {basis}"


def _of_ratio(metric: Metric, made: Comparison) -> Answer:
    ruling, ratio = made.comparable[metric], made.ratios[metric]
    status = ruling.status.replace("_", " ")
    first = sentence(ruling.reasons[0]) if ruling.reasons else ""
    more = len(ruling.decisive) - 1
    refused = ruling.status == Comparability.NOT_COMPARABLE
    because = f"{'Refused' if refused else 'Not known'}: {first}{f'; {more} more below' if more > 0 else ''}."
    if ratio is not None and ratio.forced:
        forced = f"The ratio, {ratio.value:.4f}, is FORCED: it compares different jobs, and no claim is made."
        return Answer(NAMES[metric], f"{status}, ratio forced", Tone.BAD, f"{because} {forced}")
    if ratio is None:
        tone = Tone.BAD if refused else Tone.UNSURE
        return Answer(NAMES[metric], status, tone, f"{because} No claim is made.")
    caveat = " The differences below are said beside it." if ruling.status == Comparability.QUALIFIED else ""
    return Answer(NAMES[metric], ratio.words, tone_of(ratio), f"{_claim(metric, ratio)}{caveat}")


def _claim(metric: Metric, ratio: Ratio) -> str:
    interval = around(ratio)
    figure = f"{ratio.value:.4f} ({DEFINITIONS[metric]}){f', {interval}' if interval else ''}"
    if not ratio.decided:
        return f"The ratio is {figure}. Nothing here says that one side is better."
    if ratio.outcome == Outcome.EQUIVALENT:
        return f"The two sides are {ratio.words}: {figure}."
    beyond = ratio.outcome in (Outcome.BETTER, Outcome.WORSE)
    where = f", all of it beyond the margin of {ratio.margin:.3g}" if beyond else ""
    return f"{_TARGET[metric]} {ratio.words}: {figure}{where}."


def _of_curves(made: Comparison) -> Answer:
    status = made.convergence.status
    return Answer(NAMES[Metric.CONVERGENCE], status.replace("_", " "), _ALIKE_TONES[status], " ".join(_learnt(made)))


def _learnt(made: Comparison) -> Iterator[str]:
    learning = made.convergence
    match learning.status:
        case "not_comparable":
            yield f"Refused: {learning.tiers[0].message}. The curves are of different jobs, and no claim is made."
        case "not_equivalent":
            failed = next(tier for tier in learning.tiers if tier.tier == learning.first_failing_tier)
            yield f"The two sides do not learn alike: {failed.tier} is the first tier that fails: {failed.message}."
        case "unknown":
            open_ = next(tier for tier in learning.tiers if tier.status == TierAnswer.UNKNOWN)
            yield f"Whether the two sides learn alike is not known: {open_.tier}: {open_.message}."
        case _:
            yield f"The two sides learn alike: none of {len(learning.tiers)} tiers fails, and none is open."
            if min(learning.known_seeds) < FEWEST:
                yield "That is said of these seeds; what another would do is not known."
    if learning.qualified:
        yield "The differences below are said beside it."


def disclaimers(made: Comparison) -> list[Points]:
    """Nothing where nothing has to be said."""
    parts = (_unclaimed_rulings, _unclaimed_ratios, _unclaimed_learning, _unclaimed_times, _unclaimed_runs)
    claims = dict.fromkeys(claim for part in parts for claim in part(made))
    note = "Made from the checks that failed or are not known, of everything on this page, asked or not."
    return [Points("What is not claimed", [Point(claim) for claim in claims], note)] if claims else []


def _unclaimed_rulings(made: Comparison) -> Iterator[str]:
    """Metrics that are refused or open for one reason are said together."""
    refused: dict[tuple[bool, str], list[str]] = {}
    caveats: dict[str, list[str]] = {}
    for metric, ruling in made.comparable.items():
        for reason in ruling.reasons:
            if reason.effect != Effect.CAVEAT:
                refused.setdefault((reason.effect == Effect.BLOCKS, reason.message), []).append(metric.value)
            elif ruling.holds:
                caveats.setdefault(reason.message, []).append(metric.value)
    for (_, message), metrics in sorted(refused.items(), key=lambda entry: not entry[0][0]):
        yield f"{_listed(metrics)}: {message}; no claim"
    for message, metrics in caveats.items():
        yield f"{_listed(metrics)}: said with this beside it: {message}"


def _unclaimed_ratios(made: Comparison) -> Iterator[str]:
    given = {metric: ratio for metric, ratio in made.ratios.items() if ratio is not None}
    forced = [metric.value for metric, ratio in given.items() if ratio.forced]
    if forced:
        yield f"{_listed(forced)}: the ratio is FORCED and compares different jobs; no claim"
    open_: dict[str, list[str]] = {}
    for metric, ratio in given.items():
        if not ratio.decided and not ratio.forced:
            single = ", and one run says nothing of the next" * (ratio.outcome == Outcome.SINGLE_RUN)
            open_.setdefault(f"{ratio.words}{single}", []).append(_CLAIM[metric])
    for why, claims in open_.items():
        yield f"no claim that one side {_listed(claims, 'or')}: {why}"
    for ratio in given.values():
        yield from (note.message for note in ratio.notes)


def _unclaimed_learning(made: Comparison) -> Iterator[str]:
    learning = made.convergence
    if learning.status == "unknown":
        for tier in learning.tiers[1:]:  # the contract's own reasons are told among the rulings
            if tier.status == TierAnswer.UNKNOWN:
                yield f"no claim of equal convergence: {tier.tier}: {tier.message}"
    for limit in learning.scope:
        yield f"no claim of equal convergence in general: {limit.message}"
    if learning.status == "not_comparable":
        return
    for side in (made.target, made.baseline):
        seeds = {str(subject.value("training.seed")) for subject in side.subjects}
        if len(side.subjects) > 1 and len(seeds) == 1:
            seed = seeds.pop()
            which = "the seeds are not known" if seed == "None" else f"all have seed {seed}"
            yield f"no claim about other seeds: of the runs of the {side.name} {which}"


def _unclaimed_times(made: Comparison) -> Iterator[str]:
    reached = made.time_to_loss
    if not isinstance(reached, TimeToLoss):
        yield f"no claim about the time to a loss: {reached.message}"
        return
    sides = (("the target", reached.target), ("the baseline", reached.baseline))
    for figure, key in (("energy", "energy_kwh"), ("cost", "cost")):
        missing = [name for name, side in sides if getattr(side, key) is None]
        if missing:
            yield f"no claim about the {figure} to a loss: that of {_listed(missing)} is not known"


def _unclaimed_runs(made: Comparison) -> Iterator[str]:
    """What failed or is open of the runs themselves; runs of which the same is said are named together."""
    runs: dict[str, list[str]] = {}
    for label, _, verdict in labelled(made):
        for finding in (*verdict.failed(), *verdict.undecided()):
            word = "fails" if finding.status == Status.FAIL else "is not known"
            runs.setdefault(f"{finding.check} {word}: {finding.message}", []).append(f"the {label}")
    for reason, labels in runs.items():
        yield f"of {_listed(labels)} {reason}"


def _listed(words: Sequence[str], last: str = "and") -> str:
    return f"{', '.join(words[:-1])} {last} {words[-1]}" if len(words) > 1 else words[0]


def labelled(made: Comparison) -> Iterator[tuple[str, Subject, Verdict]]:
    names = _short_names(made)
    for side in (made.target, made.baseline):
        for subject, verdict in zip(side.subjects, side.verdicts, strict=True):
            name = names[subject.run.directory]
            yield side.name if name == side.name else f"{side.name} ({name})", subject, verdict


def title(made: Comparison) -> str:
    """Both sides by their runs, or where those are many by what holds them and their number."""
    sides, names = (made.target, made.baseline), _short_names(made)
    many = {side.name: f"{unstamped(side.label)} ({len(side.subjects)} runs)" for side in sides}
    apart = len(set(many.values())) == len(sides)
    return " against ".join(
        many[side.name]
        if apart and len(side.subjects) > _MOST_NAMED
        else ", ".join(names[subject.run.directory] for subject in side.subjects)
        for side in sides
    )


def _short_names(made: Comparison) -> dict[Path, str]:
    """What each run is called: without its time, where that still tells the runs apart."""
    places = {subject.run.directory for side in (made.target, made.baseline) for subject in side.subjects}
    full = {place: place.resolve().name for place in places}
    short = {place: unstamped(name) for place, name in full.items()}
    for names in (short, full):
        if len(set(names.values())) == len(places):
            return names
    return {place: str(place) for place in places}
