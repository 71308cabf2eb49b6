"""A seed that its framework overwrites."""

from collections.abc import Iterator

from steelyard.comparison.diagnoses.diagnosis import Cause, Diagnosis
from steelyard.comparison.tiers import Pair

CODE = Cause(
    "seed",
    "A framework sets its own seed, whatever a run declares.",
    "the {side}'s seed {declared} may not be the one it trains with: {framework} sets {taken} itself "
    "unless `seed_everything` was given it",
    evidence=lambda declared, source, **_: (f"training.seed is {declared}, by {source or 'its config'}",),
    confirm="two runs with two seeds: equal losses say that neither was used",
)
OVERWRITTEN = {"nemo": 1234}
"""nemo/lightning/_strategy_lib.py sets it when ranks are set up, after whatever a script set before."""


def diagnose(pair: Pair) -> Iterator[Diagnosis]:
    for side in (pair.target, pair.baseline):
        subject = side.subjects[0]
        known, declared = subject.known("training.seed")
        name = subject.run.manifest.framework
        taken = OVERWRITTEN.get(name)
        if taken is not None and known and declared != taken:
            source = subject.source("training.seed")
            values = {"side": side.name, "declared": declared, "framework": name, "taken": taken, "source": source}
            yield Diagnosis(CODE, side.name, values, ("training.seed",))
