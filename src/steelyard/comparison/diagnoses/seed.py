"""A seed that its framework overwrites."""

from collections.abc import Iterator

from steelyard.comparison.diagnoses.diagnosis import Diagnosis
from steelyard.comparison.tiers import Pair

CODE = "seed"
OVERWRITTEN = {"nemo": 1234}
"""nemo/lightning/_strategy_lib.py sets it when ranks are set up, after whatever a script set before."""


def diagnose(pair: Pair) -> Iterator[Diagnosis]:
    for side in (pair.target, pair.baseline):
        subject = side.subjects[0]
        known, declared = subject.known("training.seed")
        name = subject.run.manifest.framework
        taken = OVERWRITTEN.get(name)
        if taken is not None and known and declared != taken:
            yield Diagnosis(
                CODE,
                side.name,
                f"the {side.name}'s seed {declared} may not be the one it trains with: {name} sets {taken} itself "
                "unless `seed_everything` was given it",
                (f"training.seed is {declared}, by {subject.run.manifest.sources.get('training.seed', 'its config')}",),
                "two runs with two seeds: equal losses say that neither was used",
            )
