"""Settings that affect the loss and have different values."""

from collections.abc import Iterator, Sequence

from steelyard.comparison.codes import shown
from steelyard.comparison.contract import Agreement, Clause
from steelyard.comparison.diagnoses import Cause, Diagnosis
from steelyard.comparison.diagnoses.silent_default import differs_by_default
from steelyard.comparison.tiers import Pair
from steelyard.experiment.policy import Effect, Metric

_MOST_NAMED = 3
"""Settings that a sentence names."""


def _sentence(clauses: Sequence[Clause]) -> str:
    values = [_values(clause) for clause in clauses[:_MOST_NAMED]]
    more = len(clauses) - len(values)
    return f"settings differ: {', '.join(values)}{f' and {more} more' * (more > 0)}"


def _values(clause: Clause) -> str:
    return f"{clause.dotted} ({shown(clause.target)} and {shown(clause.baseline)})"


def _evidence(clauses: Sequence[Clause]) -> Iterator[str]:
    for clause in clauses:
        sources = (source or "recorded" for source in (clause.target_source, clause.baseline_source))
        yield f"{_values(clause)}: {', '.join(sources)}"


CODE = Cause(
    "different_setting",
    _sentence,
    evidence=_evidence,
    confirm="run again with equal settings (--set group.key=value): the curves should then agree",
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
