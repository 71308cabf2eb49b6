"""Why a comparison was refused, or what explains its result: each reason once, the most decisive first."""

from collections.abc import Iterator, Set
from dataclasses import replace

from steelyard.comparison import Comparability, Comparison, Metric
from steelyard.comparison.codes import SETTINGS_UNKNOWN, sentence
from steelyard.comparison.diagnoses import Diagnosis, different_setting, parting
from steelyard.reasons import Reason
from steelyard.reporting.page import Point, Points, as_sentence

MAX_CAUSES = 4
REFUSED = (Comparability.NOT_COMPARABLE, Comparability.UNKNOWN)


def refused(made: Comparison) -> bool:
    """Whether something that was asked has no answer because of the contract."""
    return any(made.comparable[metric].status in REFUSED for metric in made.asked)


def likely(made: Comparison) -> list[Diagnosis]:
    """The diagnoses of what was asked: without convergence, refusing settings first, and not how curves part."""
    if Metric.CONVERGENCE in made.asked:
        return list(made.diagnoses)
    rulings = (made.comparable[metric] for metric in made.asked)
    refusing = {key for ruling in rulings if not ruling.holds for reason in ruling.decisive for key in reason.keys}
    others = [cause for cause in made.diagnoses if cause.code is not parting.CODE]
    return sorted(others, key=lambda cause: refusing.isdisjoint(cause.keys))


def causes(made: Comparison) -> Points | None:
    """Under the headline: of a refusal, and of curves that are not equivalent."""
    if refused(made):
        points = [_point(cause, made) for cause in _split(made)[1]] + list(_reasons(made))
        return Points("Why", _shortened(points)) if points else None
    if Metric.CONVERGENCE in made.asked and made.convergence.status != "equivalent" and made.diagnoses:
        return Points("Likely causes", _shortened([_point(cause, made) for cause in made.diagnoses]))
    return None


def headline_evidence(made: Comparison) -> list[str]:
    """The evidence of diagnoses that are the headline of a refusal already."""
    if not refused(made):
        return []
    return [line for cause in _split(made)[0] for line in (written(cause.message, made), *_details(cause))]


def _split(made: Comparison) -> tuple[list[Diagnosis], list[Diagnosis]]:
    """Diagnoses of what is in the headline, and what the headline lacks."""
    keys = {key for reason in _headline_reasons(made) for key in reason.keys}
    given, lacking = [], []
    for cause in likely(made):
        if cause.code is different_setting.CODE:
            given += _of_settings(cause, keys)
            lacking += _of_settings(cause, set(cause.keys) - keys)
        else:
            (given if cause.keys and keys >= set(cause.keys) else lacking).append(cause)
    return given, lacking


def _of_settings(cause: Diagnosis, keys: Set[str]) -> list[Diagnosis]:
    """Different settings, some of them."""
    clauses = [clause for clause in cause.values["clauses"] if clause.dotted in keys]
    names = tuple(clause.dotted for clause in clauses)
    return [replace(cause, values={"clauses": clauses}, keys=names)] if clauses else []


def _shortened(points: list[Point]) -> list[Point]:
    """The most decisive ones, so that the sides are still on the first screen."""
    if len(points) <= MAX_CAUSES + 1:
        return points
    rest = points[MAX_CAUSES:]
    texts = [line for point in rest for line in (point.text, *point.beneath)]
    return [*points[:MAX_CAUSES], Point(f"{len(rest)} more", texts, [point.text for point in rest])]


def diagnoses(made: Comparison) -> list[Points]:
    """The diagnoses that are not under the headline."""
    if not made.diagnoses or causes(made):
        return []
    folded = Metric.CONVERGENCE not in made.asked
    points = [_point(cause, made) for cause in made.diagnoses]
    return [Points("Diagnoses", points, "Most decisive first.", folded=folded)]


def _point(cause: Diagnosis, made: Comparison) -> Point:
    return Point(written(cause.message, made), _details(cause))


def written(text: str, made: Comparison) -> str:
    """A sentence with a capital, unless it starts with the name of a side."""
    return as_sentence(text, capital=not text.startswith(tuple(side.called for side in made.sides)))


def _details(cause: Diagnosis) -> list[str]:
    evidence = [as_sentence(text) for text in cause.evidence]
    return [*evidence, f"To confirm: {cause.confirm}.", f"Code: {cause.code.name}."]


def _reasons(made: Comparison) -> Iterator[Point]:
    """Without the first of each metric, which is in the headline, and without keys that are explained already."""
    headline = _headline_reasons(made)
    given = {sentence(reason) for reason in headline}
    keys = {key for reason in headline for key in reason.keys}
    keys |= {key for diagnosis in made.diagnoses for key in diagnosis.keys}
    for metric in made.asked:
        ruling = made.comparable[metric]
        for reason in ruling.decisive if ruling.status in REFUSED else ():
            text = sentence(reason)
            if text in given or (reason.keys and keys.issuperset(reason.keys)):
                continue
            given.add(text)
            keys.update(reason.keys)
            yield Point(as_sentence(text))


def _headline_reasons(made: Comparison) -> list[Reason]:
    """The first reason of each metric; of unknown settings the headline has a count only."""
    rulings = (made.comparable[metric] for metric in made.asked)
    firsts = [ruling.reasons[0] for ruling in rulings if ruling.status in REFUSED and ruling.reasons]
    return [reason for reason in firsts if reason.code is not SETTINGS_UNKNOWN]
