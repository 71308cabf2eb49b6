"""A seed that its framework overwrites."""

from collections.abc import Iterator

from steelyard.comparison.diagnoses import Cause, Diagnosis
from steelyard.comparison.tiers import Pair
from steelyard.frameworks.registry import facts

CODE = Cause(
    "seed",
    "the {side}'s seed {declared} may not be the one it trains with: {framework} sets {taken} itself "
    "unless `seed_everything` was given it",
    evidence=lambda declared, source, **_: (f"training.seed is {declared}, by {source or 'its config'}",),
    confirm="two runs with two seeds: equal losses say that neither was used",
)
"""A framework sets its own seed, whatever a run declares."""


def diagnose(pair: Pair) -> Iterator[Diagnosis]:
    for side in pair.sides:
        subject = side.subjects[0]
        known, declared = subject.known("training.seed")
        name = subject.run.manifest.framework
        taken = facts(name).overwritten_seed
        if taken is not None and known and declared != taken:
            source = subject.source("training.seed")
            values = {"side": side.name, "declared": declared, "framework": name, "taken": taken, "source": source}
            yield Diagnosis(CODE, side.name, values, ("training.seed",))
