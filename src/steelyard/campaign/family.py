"""A family of comparisons, a job each, of one pair of platforms: the speedup over all, and each held to their number.

Of twenty jobs on equal platforms one is faster by chance; Holm's adjustment keeps the chance of any such word at 5 %.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import combinations, compress
from pathlib import Path
from typing import Any

from steelyard.campaign import refused
from steelyard.comparison.codes import sentence
from steelyard.comparison.comparison import Comparison
from steelyard.comparison.contract import ONE_PLATFORM, Agreement, Comparability, alike, difference, partly_known
from steelyard.comparison.copies import check_once
from steelyard.comparison.intervals import BETWEEN_RUNS, LEVEL, Between, Outcome, between, outcome_of
from steelyard.comparison.ratios import TERMS, Ratio, figures_of
from steelyard.errors import Exit
from steelyard.experiment.keys import blocking
from steelyard.experiment.policy import Metric
from steelyard.reasons import Code, Reason, SideName
from steelyard.verdict import Subject

FEWEST = 2
_ERROR = 0.05
"""Of all words of one kind in a family together."""
_TERMS = TERMS[Metric.THROUGHPUT]
_ABOVE = (Outcome.BETTER, Outcome.EQUIVALENT, Outcome.MARGINALLY_BETTER)
_BELOW = (Outcome.WORSE, Outcome.EQUIVALENT, Outcome.MARGINALLY_WORSE)
"""What holds of a ratio beyond the margin, inside it, or apart from 1."""
_refused = partial(refused, "COMPARISONS")


@dataclass(frozen=True, slots=True)
class Member:
    """One job, on both platforms."""

    directory: Path
    comparison: Comparison

    @property
    def status(self) -> Comparability:
        return self.comparison.comparable[Metric.THROUGHPUT].status

    @property
    def ratio(self) -> Ratio | None:
        """None where the contract refuses it, forced or not."""
        ratio = self.comparison.ratios[Metric.THROUGHPUT]
        return None if ratio is None or ratio.forced else ratio

    @property
    def between(self) -> Between | None:
        """None where it has too few runs, or some that had not settled."""
        sides = self.comparison.target, self.comparison.baseline
        if self.ratio is None or self.ratio.outcome == Outcome.UNSETTLED:
            return None
        target, baseline = (figures_of(Metric.THROUGHPUT, side.subjects) for side in sides)
        return between(target, baseline)


@dataclass(frozen=True, slots=True)
class Speedup:
    """Over all jobs: the geometric mean."""

    value: float
    low: float | None
    high: float | None
    level: float
    words: str
    method: str | None
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Family:
    members: tuple[Member, ...]
    alone: tuple[str | None, ...]
    """What may be said of each by itself, at the family's margin; None of one that is refused."""
    adjusted: tuple[str | None, ...]
    """What may be said of each beside the others; None of one without an interval between runs."""
    speedup: Speedup | None
    """None where a member has none: to leave it out would be to choose."""
    margin: float
    reasons: tuple[Reason, ...]

    @property
    def exit(self) -> Exit:
        if any(member.status == Comparability.NOT_COMPARABLE for member in self.members):
            return Exit.NOT_COMPARABLE
        known = self.speedup is not None and self.speedup.outcome.decided
        return Exit.GOOD if known and not self.reasons else Exit.UNKNOWN

    def document(self) -> dict[str, Any]:
        """What `runs family --json` prints."""
        return {
            "metric": "throughput_speedup",
            "margin": self.margin,
            "speedup": asdict(self.speedup) if self.speedup else None,
            "reasons": [reason.message for reason in self.reasons],
            "members": [
                {
                    "comparison": str(member.directory.resolve()),
                    "status": member.status.value,
                    "throughput_speedup": member.ratio.document() if member.ratio else None,
                    "words": alone,
                    "adjusted_words": adjusted,
                }
                for member, alone, adjusted in zip(self.members, self.alone, self.adjusted, strict=True)
            ],
        }


NOT_COMPARED = Code("family_not_compared", "{comparison} is {status}: {why}")
"""A comparison of the family is refused or open."""
OBSERVED = Code("family_observed", "{comparison}: {words}")
"""A comparison of the family has no interval between runs."""
PLATFORM_UNKNOWN = Code("family_platform_unknown", "as {side}, {why}")
"""A platform is known of some runs only."""


def family(members: Sequence[Member], margin: float | None = None) -> Family:
    """Weigh them together; the strictest margin of theirs stands where none is asked."""
    _check(members)
    if margin is None:
        margin = min(member.comparison.margin for member in members)
    ratios = [member.between for member in members]
    known = [ratio for ratio in ratios if ratio is not None]
    alone = [member.ratio.words if member.ratio else None for member in members]
    for at, ratio in enumerate(ratios):
        alone[at] = _TERMS.of(outcome_of(ratio, margin), margin) if ratio else alone[at]
    adjusted = iter(adjusted_outcomes(known, margin))
    return Family(
        members=tuple(members),
        alone=tuple(alone),
        adjusted=tuple(None if ratio is None else _TERMS.of(next(adjusted), margin) for ratio in ratios),
        speedup=_speedup(members, known, margin),
        margin=margin,
        reasons=tuple(_reasons(members, ratios)),
    )


def _check(members: Sequence[Member]) -> None:
    """One pair of platforms, each job once, no run twice."""
    if len(members) < FEWEST:
        fix = "steelyard compare TARGET BASELINE"
        raise _refused(f"{len(members)} is no family", f"{FEWEST} or more", next=fix)
    for name in ("target", "baseline"):
        subjects = _subjects(members, name)
        if (differing := difference(subjects, ONE_PLATFORM)) is not None:
            raise _refused(f"as {name}, {differing.message}", "one pair of platforms, the same way round")
        check_once("COMPARISONS", subjects)
    for pair in combinations(members, 2):
        first, second = (member.comparison for member in pair)
        names = " and ".join(member.directory.resolve().name for member in pair)
        jobs = [first.target.subjects[0], second.target.subjects[0]]
        if difference(jobs, blocking(Metric.THROUGHPUT)) is None:
            raise _refused(f"{names} weigh the same job", "each job once", next="compare all its runs together")
        if (turned := _turned(first, second)) is not None:
            raise _refused(f"{names} have their sides the other way round in {turned}", "the same platform as target")


def _subjects(members: Sequence[Member], side: str) -> list[Subject]:
    return [subject for member in members for subject in getattr(member.comparison, side).subjects]


def _turned(first: Comparison, second: Comparison) -> str | None:
    """A parameter that the target of one has where the baseline of the other has it, and the other way round."""
    apart = {clause.dotted: clause for clause in first.contract if clause.status == Agreement.DIFFERENT}
    for clause in second.contract:
        turned = apart.get(clause.dotted)
        if turned and alike(turned.target, clause.baseline) and alike(turned.baseline, clause.target):
            return clause.dotted
    return None


def _reasons(members: Sequence[Member], ratios: Sequence[Between | None]) -> Iterator[Reason]:
    for member, ratio in zip(members, ratios, strict=True):
        name = member.directory.resolve().name
        if member.ratio is None:
            ruling = member.comparison.comparable[Metric.THROUGHPUT]
            why = sentence(ruling.reasons[0]) if ruling.reasons else "no reason given"
            status = ruling.status.value.replace("_", " ")
            yield Reason(NOT_COMPARED, {"comparison": name, "status": status, "why": why})
        elif ratio is None:
            yield Reason(OBSERVED, {"comparison": name, "words": member.ratio.words})
    sides: tuple[SideName, ...] = ("target", "baseline")
    for side in sides:
        if (partly := partly_known(_subjects(members, side), ONE_PLATFORM)) is not None:
            values = {"side": side, "why": partly.message}
            yield Reason(PLATFORM_UNKNOWN, values, side=side, keys=partly.keys)


def _speedup(members: Sequence[Member], known: Sequence[Between], margin: float) -> Speedup | None:
    ratios = [member.ratio for member in members]
    values = [ratio.value for ratio in ratios if ratio is not None]
    if len(values) < len(members):
        return None
    value = math.exp(sum(map(math.log, values)) / len(values))
    if len(known) < len(members):
        few = "observation: not every job has three runs a side"
        return Speedup(value, None, None, LEVEL, few, None, Outcome.TOO_FEW_RUNS)
    overall = mean(known)
    low, high = overall.interval()
    outcome = outcome_of(overall, margin)
    return Speedup(overall.value, low, high, LEVEL, _TERMS.of(outcome, margin), BETWEEN_RUNS, outcome)


def mean(several: Sequence[Between]) -> Between:
    """The geometric mean of independent ratios, with Welch's and Satterthwaite's degrees of freedom."""
    variances = [ratio.standard_error**2 for ratio in several]
    shares = sum(variance**2 / ratio.freedom for variance, ratio in zip(variances, several, strict=True))
    return Between(
        value=math.exp(sum(math.log(ratio.value) for ratio in several) / len(several)),
        standard_error=math.sqrt(sum(variances)) / len(several),
        freedom=sum(variances) ** 2 / shares if shares else math.inf,
    )


def holm(chances: Sequence[float]) -> list[float]:
    """P-values, each adjusted to their number: at most 5 % of families have any of true nulls at 5 % or less."""
    adjusted, highest = [0.0] * len(chances), 0.0
    for rank, at in enumerate(sorted(range(len(chances)), key=chances.__getitem__)):
        highest = max(highest, min(1.0, chances[at] * (len(chances) - rank)))
        adjusted[at] = highest
    return adjusted


def adjusted_outcomes(several: Sequence[Between], margin: float) -> list[Outcome]:
    """What may be said of each ratio, from the same tests, each kind adjusted over the family."""
    beyond = _holds(several, lambda ratio: 2 * min(ratio.above(1 + margin), ratio.below(1 - margin)))
    equal = _holds(several, lambda ratio: max(ratio.above(1 - margin), ratio.below(1 + margin)))
    apart = _holds(several, lambda ratio: 2 * min(ratio.above(1), ratio.below(1)))
    outcomes = []
    for ratio, *holds in zip(several, beyond, equal, apart, strict=True):
        ladder = _ABOVE if ratio.value > 1 else _BELOW
        outcomes.append(next(compress(ladder, holds), Outcome.INCONCLUSIVE))
    return outcomes


def _holds(several: Sequence[Between], chance: Callable[[Between], float]) -> list[bool]:
    return [adjusted < _ERROR for adjusted in holm([chance(ratio) for ratio in several])]
