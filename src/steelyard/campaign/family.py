"""A family: several comparisons on one pair of platforms, one per job, with their common speedup.

With twenty jobs on equal platforms, one looks faster by chance. Holm's adjustment limits the chance of any such result
in the family to 5%.
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
from steelyard.comparison.intervals import BETWEEN_RUNS, LEVEL, Between, Outcome, error_at, outcome_of
from steelyard.comparison.ratios import TERMS, Ratio
from steelyard.errors import Exit
from steelyard.experiment.keys import blocking
from steelyard.experiment.policy import Metric
from steelyard.reasons import Code, Reason, SideName
from steelyard.verdict import Subject

FEWEST = 2
_ERROR = error_at(1)
"""Chance of any wrong result of one kind in the family."""
_TERMS = TERMS[Metric.THROUGHPUT]
_ABOVE = (Outcome.BETTER, Outcome.EQUIVALENT, Outcome.MARGINALLY_BETTER)
_BELOW = (Outcome.WORSE, Outcome.EQUIVALENT, Outcome.MARGINALLY_WORSE)
"""Outcomes of a ratio that is beyond the margin, inside it, or different from 1."""
_refused = partial(refused, "COMPARISONS")


@dataclass(frozen=True, slots=True)
class Member:
    """The comparison of one job on both platforms."""

    directory: Path
    comparison: Comparison

    @property
    def status(self) -> Comparability:
        return self.comparison.comparable[Metric.THROUGHPUT].status

    @property
    def ratio(self) -> Ratio | None:
        """None if the job is not comparable."""
        return self.comparison.ratios[Metric.THROUGHPUT]

    @property
    def between(self) -> Between | None:
        """None if there are too few runs, or step times have not settled."""
        return None if self.ratio is None or self.ratio.outcome == Outcome.UNSETTLED else self.ratio.estimate


@dataclass(frozen=True, slots=True)
class Speedup:
    """The geometric mean over all jobs."""

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
    """The outcome of each comparison by itself, at the family's margin; None without a ratio."""
    adjusted: tuple[str | None, ...]
    """The outcome of each within the family; None without an interval between runs."""
    speedup: Speedup | None
    """None if a member has no speedup: leaving it out would bias the mean."""
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
            "reason_codes": [reason.code.name for reason in self.reasons],
            "members": [
                {
                    "comparison": str(member.directory.resolve()),
                    "status": member.status.value,
                    "banner": member.comparison.banner,
                    "throughput_speedup": member.ratio.document() if member.ratio else None,
                    "words": alone,
                    "adjusted_words": adjusted,
                }
                for member, alone, adjusted in zip(self.members, self.alone, self.adjusted, strict=True)
            ],
        }


NOT_COMPARED = Code("family_not_compared", "{comparison} is {status}: {why}")
"""A comparison of the family is not comparable or unknown."""
OBSERVED = Code("family_observed", "{comparison}: {words}")
"""A comparison of the family has no interval between runs."""
PLATFORM_UNKNOWN = Code("family_platform_unknown", "{side}: {why}")
"""The platform is recorded for some runs only."""


def family(members: Sequence[Member], margin: float | None = None) -> Family:
    """Combine comparisons; the default margin is the smallest margin of the members."""
    _check(members)
    if margin is None:
        margin = min(member.comparison.margin for member in members)
    ratios = [member.between for member in members]
    known = [ratio for ratio in ratios if ratio is not None]
    alone = [member.ratio.words if member.ratio else None for member in members]
    for at, (member, ratio) in enumerate(zip(members, ratios, strict=True)):
        alone[at] = _TERMS.of(outcome_of(ratio, margin, member.comparison.look), margin) if ratio else alone[at]
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
    """Require one pair of platforms, each job once, and no run twice."""
    if len(members) < FEWEST:
        fix = "steelyard compare TARGET BASELINE, once per job"
        raise _refused(f"only {len(members)} given", f"{FEWEST} or more", next=fix)
    for name in ("target", "baseline"):
        subjects = _subjects(members, name)
        if (differing := difference(subjects, ONE_PLATFORM)) is not None:
            expected = "the same target platform and the same baseline platform in all comparisons"
            raise _refused(f"{name}: {differing.message}", expected)
        check_once("COMPARISONS", subjects)
    for pair in combinations(members, 2):
        first, second = (member.comparison for member in pair)
        names = " and ".join(member.directory.resolve().name for member in pair)
        jobs = [first.target.subjects[0], second.target.subjects[0]]
        if difference(jobs, blocking(Metric.THROUGHPUT)) is None:
            fix = "steelyard compare TARGET BASELINE, with all runs of the job"
            raise _refused(f"{names} compare the same job", "each job once", next=fix)
        if (swapped := _swapped(first, second)) is not None:
            problem, expected = f"{names} have target and baseline swapped ({swapped})", "the same platform as target"
            raise _refused(problem, expected)


def _subjects(members: Sequence[Member], side: str) -> list[Subject]:
    return [subject for member in members for subject in getattr(member.comparison, side).subjects]


def _swapped(first: Comparison, second: Comparison) -> str | None:
    """A key whose values of target and baseline are swapped between the two comparisons."""
    differing = {clause.dotted: clause for clause in first.contract if clause.status == Agreement.DIFFERENT}
    for clause in second.contract:
        other = differing.get(clause.dotted)
        if other and alike(other.target, clause.baseline) and alike(other.baseline, clause.target):
            return clause.dotted
    return None


def _reasons(members: Sequence[Member], ratios: Sequence[Between | None]) -> Iterator[Reason]:
    for member, ratio in zip(members, ratios, strict=True):
        name = member.directory.resolve().name
        if member.ratio is None:
            ruling = member.comparison.comparable[Metric.THROUGHPUT]
            why = sentence(ruling.reasons[0]) if ruling.reasons else "no reason recorded"
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
        few = "observation: each job needs three runs per side"
        return Speedup(value, None, None, LEVEL, few, None, Outcome.TOO_FEW_RUNS)
    overall = mean(known)
    low, high = overall.interval()
    outcome = outcome_of(overall, margin)
    return Speedup(overall.value, low, high, LEVEL, _TERMS.of(outcome, margin), BETWEEN_RUNS, outcome)


def mean(ratios: Sequence[Between]) -> Between:
    """The geometric mean of independent ratios, with Welch-Satterthwaite degrees of freedom."""
    variances = [ratio.standard_error**2 for ratio in ratios]
    shares = sum(variance**2 / ratio.freedom for variance, ratio in zip(variances, ratios, strict=True))
    return Between(
        value=math.exp(sum(math.log(ratio.value) for ratio in ratios) / len(ratios)),
        standard_error=math.sqrt(sum(variances)) / len(ratios),
        freedom=sum(variances) ** 2 / shares if shares else math.inf,
    )


def holm(chances: Sequence[float]) -> list[float]:
    """P-values adjusted by Holm's method: with true null hypotheses, at most 5% of families have one below 5%."""
    adjusted, highest = [0.0] * len(chances), 0.0
    for rank, at in enumerate(sorted(range(len(chances)), key=chances.__getitem__)):
        highest = max(highest, min(1.0, chances[at] * (len(chances) - rank)))
        adjusted[at] = highest
    return adjusted


def adjusted_outcomes(ratios: Sequence[Between], margin: float) -> list[Outcome]:
    """The outcome of each ratio, with each kind of test adjusted over the family."""
    beyond = _significant(ratios, lambda ratio: 2 * min(ratio.above(1 + margin), ratio.below(1 - margin)))
    equal = _significant(ratios, lambda ratio: max(ratio.above(1 - margin), ratio.below(1 + margin)))
    apart = _significant(ratios, lambda ratio: 2 * min(ratio.above(1), ratio.below(1)))
    outcomes = []
    for ratio, *significant in zip(ratios, beyond, equal, apart, strict=True):
        ladder = _ABOVE if ratio.value > 1 else _BELOW
        outcomes.append(next(compress(ladder, significant), Outcome.INCONCLUSIVE))
    return outcomes


def _significant(ratios: Sequence[Between], chance: Callable[[Between], float]) -> list[bool]:
    return [adjusted < _ERROR for adjusted in holm([chance(ratio) for ratio in ratios])]
