"""A seed that its framework overwrites."""

from collections.abc import Iterator

from steelyard.comparison.diagnoses.diagnosis import Diagnosis
from steelyard.comparison.tiers import Pair
from steelyard.frameworks.registry import facts

CODE = "seed"


def diagnose(pair: Pair) -> Iterator[Diagnosis]:
    for side in (pair.target, pair.baseline):
        subject = side.subjects[0]
        known, declared = subject.known("training.seed")
        name = subject.run.manifest.framework
        taken = facts(name).overwritten_seed
        if taken is not None and known and declared != taken:
            yield Diagnosis(
                CODE,
                side.name,
                f"the {side.name}'s seed {declared} may not be the one it trains with: {name} sets {taken} itself "
                "unless `seed_everything` was given it",
                (f"training.seed is {declared}, by {subject.run.manifest.sources.get('training.seed', 'its config')}",),
                "two runs with two seeds: equal losses say that neither was used",
            )
