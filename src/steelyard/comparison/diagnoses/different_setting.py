"""Settings that shape the curve and were given two values."""

from collections.abc import Iterator

from steelyard.comparison.codes import shown
from steelyard.comparison.contract import Agreement
from steelyard.comparison.diagnoses.diagnosis import Diagnosis
from steelyard.comparison.diagnoses.silent_default import differs_by_default
from steelyard.comparison.policy import Effect, Metric
from steelyard.comparison.tiers import Pair

CODE = "different_setting"


def diagnose(pair: Pair) -> Iterator[Diagnosis]:
    found = [
        clause
        for clause in pair.clauses
        if clause.status == Agreement.DIFFERENT
        and clause.governs.get(Metric.CONVERGENCE) == Effect.BLOCKS
        and not differs_by_default(clause, pair)
    ]
    if found:
        told = "; ".join(f"{one.dotted} is {shown(one.target)} and {shown(one.baseline)}" for one in found)
        yield Diagnosis(
            CODE,
            "both",
            f"the two sides were told to train differently: {told}",
            tuple(f"{one.dotted} of both runs" for one in found),
            "make them equal and run again; if the curves then agree, it was these",
        )
