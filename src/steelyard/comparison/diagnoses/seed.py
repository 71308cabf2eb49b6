"""A seed that the framework overwrites."""

from collections.abc import Iterator

from steelyard.comparison.diagnoses import Cause, Diagnosis
from steelyard.comparison.tiers import Pair
from steelyard.frameworks.registry import facts

CODE = Cause(
    "seed",
    "{framework} may ignore seed {declared} of {side}: it sets seed {taken} unless `seed_everything` is called",
    evidence=lambda declared, source, **_: (f"training.seed is {declared} ({source or 'config'})",),
    confirm="run with two seeds: if the losses are equal, the seed is ignored",
)
"""A framework sets its own seed and may ignore the declared one."""


def diagnose(pair: Pair) -> Iterator[Diagnosis]:
    for side in pair.sides:
        subject = side.subjects[0]
        known, declared = subject.known("training.seed")
        name = subject.run.manifest.framework
        taken = facts(name).overwritten_seed
        if taken is not None and known and declared != taken:
            source = subject.source("training.seed")
            values = {"side": side.called, "declared": declared, "framework": name, "taken": taken, "source": source}
            yield Diagnosis(CODE, side.name, values, ("training.seed",))
