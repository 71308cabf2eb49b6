"""Settings that shape the curve and were given two values."""

from collections.abc import Iterator, Sequence

from steelyard.comparison.codes import shown
from steelyard.comparison.contract import Agreement, Clause
from steelyard.comparison.diagnoses import Cause, Diagnosis
from steelyard.comparison.diagnoses.silent_default import differs_by_default
from steelyard.comparison.tiers import Pair
from steelyard.experiment.policy import Effect, Metric


def _sentence(clauses: Sequence[Clause]) -> str:
    values = (f"{clause.dotted} is {shown(clause.target)} and {shown(clause.baseline)}" for clause in clauses)
    return f"the two sides were told to train differently: {'; '.join(values)}"


CODE = Cause(
    "different_setting",
    _sentence,
    evidence=lambda clauses: (f"{clause.dotted} of both runs" for clause in clauses),
    confirm="make them equal and run again; if the curves then agree, it was these",
)
"""The two sides were given different values of settings that shape a curve."""


def diagnose(pair: Pair) -> Iterator[Diagnosis]:
    clauses = [
        clause
        for clause in pair.clauses
        if clause.status == Agreement.DIFFERENT
        and clause.governs.get(Metric.CONVERGENCE) == Effect.BLOCKS
        and not differs_by_default(clause, pair)
    ]
    if clauses:
        yield Diagnosis(CODE, "both", {"clauses": clauses}, tuple(clause.dotted for clause in clauses))
