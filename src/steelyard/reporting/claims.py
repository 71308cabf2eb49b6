"""What a comparison claims, one answer per asked metric, and what it does not claim."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from steelyard.comparison import Comparison, Metric, Ratio
from steelyard.comparison.intervals import Outcome
from steelyard.comparison.phrases import listed
from steelyard.comparison.tiers import Answer as TierAnswer
from steelyard.comparison.time_to_loss import TimeToLoss
from steelyard.errors import Exit
from steelyard.files import place_of
from steelyard.reasons import Effect
from steelyard.records import unstamped
from steelyard.reporting.page import Point, Points, Tone
from steelyard.verdict import Status, Subject, Verdict

_CURVE_TONES = {"equivalent": Tone.GOOD, "not_equivalent": Tone.BAD, "not_comparable": Tone.BAD, "unknown": Tone.UNSURE}
_TOGETHER = {
    Exit.GOOD: "decided",
    Exit.FAILED: "not equivalent",
    Exit.NOT_COMPARABLE: "not comparable",
    Exit.UNKNOWN: "undecided",
}
_TONE_TOGETHER = {Exit.GOOD: Tone.GOOD, Exit.UNKNOWN: Tone.UNSURE}
_CLAIM = {Metric.THROUGHPUT: "is faster", Metric.MEMORY: "needs less memory", Metric.FLOPS: "has a higher MFU"}


def word_and_tone(made: Comparison) -> tuple[str, Tone]:
    """The answer in one word; several metrics with different answers have the word of the worst."""
    first, *others = (word_of(metric, made) for metric in made.asked)
    word = first[0] if all(word == first[0] for word, _ in others) else _TOGETHER[made.exit]
    tone = first[1] if all(tone == first[1] for _, tone in others) else _TONE_TOGETHER.get(made.exit, Tone.BAD)
    return word, tone


def word_of(metric: Metric, made: Comparison) -> tuple[str, Tone]:
    """The answer to one question in one word."""
    ruling, ratio = made.comparable[metric], made.ratios.get(metric)
    if metric == Metric.CONVERGENCE:
        learning = made.convergence.status
        return learning.replace("_", " "), _CURVE_TONES[learning]
    status = ruling.status.value.replace("_", " ")
    if ratio is None:
        return status, Tone.BAD if made.exit_of(metric) == Exit.NOT_COMPARABLE else Tone.UNSURE
    return ratio.words, tone_of(ratio)


def tone_of(ratio: Ratio) -> Tone:
    """Decided for the target or equivalent is good; undecided is a note."""
    if not ratio.decided:
        return Tone.UNSURE if ratio.interval == "runs" and ratio.low is not None else Tone.NOTE
    return Tone.NOTE if ratio.outcome.below else Tone.GOOD


def disclaimers(made: Comparison) -> list[Points]:
    """What the comparison does not show; empty if nothing limits it."""
    parts = (_unclaimed_rulings, _unclaimed_ratios, _unclaimed_learning, _unclaimed_times, _unclaimed_runs)
    claims = dict.fromkeys(claim for part in parts for claim in part(made))
    note = "From all failed and unknown checks on this page, of asked metrics and others."
    return [Points("What is not claimed", [Point(claim) for claim in claims], note)] if claims else []


def _unclaimed_rulings(made: Comparison) -> Iterator[str]:
    """Metrics with the same reason are named together."""
    blocking: dict[tuple[bool, str], list[str]] = {}
    caveats: dict[str, list[str]] = {}
    for metric, ruling in made.comparable.items():
        for reason in ruling.reasons:
            if reason.effect != Effect.CAVEAT:
                blocking.setdefault((reason.effect == Effect.BLOCKS, reason.message), []).append(metric.value)
            elif ruling.holds:
                caveats.setdefault(reason.message, []).append(metric.value)
    for (_, message), metrics in sorted(blocking.items(), key=lambda entry: not entry[0][0]):
        yield f"no claim about {listed(metrics)}: {message}"
    for message, metrics in caveats.items():
        yield f"caveat for {listed(metrics)}: {message}"


def _unclaimed_ratios(made: Comparison) -> Iterator[str]:
    given = {metric: ratio for metric, ratio in made.ratios.items() if ratio is not None}
    open_: dict[str, list[str]] = {}
    for metric, ratio in given.items():
        if not ratio.decided:
            single = "; another run may differ" * (ratio.outcome == Outcome.SINGLE_RUN)
            open_.setdefault(f"{ratio.words}{single}", []).append(_CLAIM[metric])
    for why, claims in open_.items():
        yield f"no claim that one side {listed(claims, 'or')}: {why}"
    for ratio in given.values():
        yield from (note.message for note in ratio.notes)


def _unclaimed_learning(made: Comparison) -> Iterator[str]:
    curves = made.convergence
    if curves.status == "unknown":
        for tier in curves.tiers[1:]:  # reasons of the contract are among the rulings
            if tier.status == TierAnswer.UNKNOWN:
                yield f"no claim of equal convergence: {tier.tier}: {tier.message}"
    for limit in curves.scope:
        yield f"no general claim of equal convergence: {limit.message}"
    if curves.status == "not_comparable":
        return
    for side in made.sides:
        seeds = {str(subject.value("training.seed")) for subject in side.subjects}
        if len(side.subjects) > 1 and len(seeds) == 1:
            seed = seeds.pop()
            which = "seeds are not recorded" if seed == "None" else f"all runs have seed {seed}"
            yield f"no claim about other seeds: {which} on {side.called}"


def _unclaimed_times(made: Comparison) -> Iterator[str]:
    reached = made.time_to_loss
    if not isinstance(reached, TimeToLoss):
        yield f"no claim about the time to a loss: {reached.message}"
        return
    sides = list(zip(made.sides, (reached.target, reached.baseline), strict=True))
    for quantity, key in (("energy", "energy_kwh"), ("cost", "cost")):
        missing = [side.called for side, needs in sides if getattr(needs, key) is None]
        if missing:
            yield f"no claim about the {quantity} to a loss: unknown for {listed(missing)}"


def _unclaimed_runs(made: Comparison) -> Iterator[str]:
    judged = ((label, verdict) for label, _, verdict in labelled(made))
    for finding, labels in open_findings(judged).items():
        yield f"{finding.check} {finding.word} for {listed(labels)}: {finding.message}"


class OpenFinding(NamedTuple):
    """A finding that limits what is claimed, of any run."""

    check: str
    word: str
    message: str


def open_findings(judged: Iterable[tuple[str, Verdict]], with_optional: bool = False) -> dict[OpenFinding, list[str]]:
    """Failed and unknown findings, with the labels of the runs that have them."""
    runs: dict[OpenFinding, list[str]] = {}
    for label, verdict in judged:
        findings = verdict.by_weight() if with_optional else (*verdict.failed(), *verdict.undecided())
        for finding in findings:
            if finding.status != Status.PASS:
                word = "fails" if finding.status == Status.FAIL else "is unknown"
                runs.setdefault(OpenFinding(finding.check, word, finding.message), []).append(label)
    return runs


def labelled(made: Comparison) -> Iterator[tuple[str, Subject, Verdict]]:
    names = _short_names(made)
    for side in (made.target, made.baseline):
        for subject, verdict in zip(side.subjects, side.verdicts, strict=True):
            name = names[subject.run.directory]
            yield side.name if name == side.name else f"{side.name} ({name})", subject, verdict


def _short_names(made: Comparison) -> dict[Path, str]:
    """The name of each run, without its timestamp if the names still differ."""
    places = {subject.run.directory for side in (made.target, made.baseline) for subject in side.subjects}
    full = {place: place.resolve().name for place in places}
    short = {place: unstamped(name) for place, name in full.items()}
    for names in (short, full):
        if len(set(names.values())) == len(places):
            return names
    return {place: place_of(place) for place in places}
