"""What a comparison does not claim, from the checks that failed or whose answer is not known."""

from collections.abc import Iterator, Sequence

from steelyard.comparison import Comparison, Metric, Ratio
from steelyard.comparison.intervals import Outcome
from steelyard.comparison.tiers import Answer
from steelyard.comparison.time_to_loss import TimeToLoss
from steelyard.reasons import Effect
from steelyard.reporting.labels import labelled
from steelyard.reporting.page import Point, Points
from steelyard.verdict import Status

_CLAIM = {
    Metric.THROUGHPUT: "is faster",
    Metric.MEMORY: "needs less memory",
    Metric.FLOPS: "uses its GPUs better",
}


def disclaimers(made: Comparison) -> list[Points]:
    """Nothing where nothing has to be said."""
    told = list(dict.fromkeys([*_rulings(made), *_ratios(made), *_learning(made), *_time_to_loss(made), *_runs(made)]))
    note = "Made from the checks that failed or are not known, of everything on this page, asked or not."
    return [Points("What is not claimed", [Point(one) for one in told], note)] if told else []


def _rulings(made: Comparison) -> Iterator[str]:
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


def _ratios(made: Comparison) -> Iterator[str]:
    given = {metric: ratio for metric, ratio in made.ratios.items() if ratio is not None}
    forced = [metric for metric, ratio in given.items() if ratio.forced]
    if forced:
        yield f"{_listed([one.value for one in forced])}: the ratio is FORCED and compares different jobs; no claim"
    open_: dict[str, list[str]] = {}
    for metric, ratio in given.items():
        if not ratio.decided and not ratio.forced:
            open_.setdefault(_why_open(ratio), []).append(_CLAIM[metric])
    for why, claims in open_.items():
        yield f"no claim that one side {_listed(claims, 'or')}: {why}"
    for ratio in given.values():
        yield from (note.message for note in ratio.notes)


def _why_open(ratio: Ratio) -> str:
    single = ratio.outcome == Outcome.SINGLE_RUN
    return f"{ratio.words}{', and one run says nothing of the next' if single else ''}"


def _learning(made: Comparison) -> Iterator[str]:
    found = made.convergence
    if found.status == "unknown":
        for tier in found.tiers[1:]:  # the contract's own reasons are told among the rulings
            if tier.status == Answer.UNKNOWN:
                yield f"no claim of equal convergence: {tier.tier}: {tier.message}"
    for limit in found.scope:
        yield f"no claim of equal convergence in general: {limit.message}"
    if found.status == "not_comparable":
        return
    for side in (made.target, made.baseline):
        seeds = {str(subject.value("training.seed")) for subject in side.subjects}
        if len(side.subjects) > 1 and len(seeds) == 1:
            seed = seeds.pop()
            told = "the seeds are not known" if seed == "None" else f"all have seed {seed}"
            yield f"no claim about other seeds: of the runs of the {side.name} {told}"


def _time_to_loss(made: Comparison) -> Iterator[str]:
    found = made.time_to_loss
    if not isinstance(found, TimeToLoss):
        yield f"no claim about the time to a loss: {found.message}"
        return
    sides = {"target": found.target, "baseline": found.baseline}
    for what, known in (
        ("energy", {name: own.energy_kwh for name, own in sides.items()}),
        ("cost", {name: own.cost for name, own in sides.items()}),
    ):
        missing = [f"the {name}" for name, value in known.items() if value is None]
        if missing:
            yield f"no claim about the {what} to a loss: that of {_listed(missing)} is not known"


def _runs(made: Comparison) -> Iterator[str]:
    """What failed or is open of the runs themselves; runs of which the same is said are named together."""
    told: dict[str, list[str]] = {}
    for label, _, verdict in labelled(made):
        for finding in (*verdict.failed(), *verdict.undecided()):
            word = "fails" if finding.status == Status.FAIL else "is not known"
            told.setdefault(f"{finding.check} {word}: {finding.message}", []).append(f"the {label}")
    for what, labels in told.items():
        yield f"of {_listed(labels)} {what}"


def _listed(words: Sequence[str], last: str = "and") -> str:
    return f"{', '.join(words[:-1])} {last} {words[-1]}" if len(words) > 1 else words[0]
