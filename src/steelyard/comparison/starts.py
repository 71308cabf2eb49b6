"""Which runs of the two sides may start from the same weights, and whether that is known.

PyTorch's random numbers depend on the number of SMs or CUs of a GPU (pytorch issues 143086 and 196613), so a seed gives
the same weights only on one kind of GPU, with one software stack and one layout.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, product
from typing import Any

from steelyard.comparison.contract import known_value
from steelyard.comparison.side import Side
from steelyard.frameworks.registry import facts
from steelyard.reasons import Code, Reason
from steelyard.verdict import Subject

CUTS = ("parallelism.tensor_parallel_size", "parallelism.pipeline_parallel_size")
"""Each rank draws its own shard of the weights, so other sizes give other weights for one seed."""
WEIGHTS = "training.initial_weights"
DETERMINISTIC = "kernels.deterministic"
_NO_STACK = frozenset({"device", "ranks", "dtype", "steps"})
"""Recorded next to the versions of the software, and no version."""

OTHER_FRAMEWORKS = Code("start_other_frameworks", "the frameworks differ, and each has its own initial weights")
"""Two frameworks make their own initial weights, whatever the seed."""
OTHER_CUTS = Code(
    "start_other_cuts", "tensor or pipeline parallel sizes differ, so one seed gives different initial weights"
)
"""Runs of one seed have different parallel sizes and start from different weights."""
NO_COMMON_SEED = Code("start_no_common_seed", "no seed is known to be used on both sides")
"""No run of one side is known to have the seed of a run of the other."""
OTHER_WEIGHTS = Code("start_other_weights", "the sides declare different initial weights")
"""The declared initial weights of the two sides differ."""
CUTS_UNKNOWN = Code(
    "start_cuts_unknown",
    "tensor or pipeline parallel size is not recorded for every run; other sizes give other weights",
)
"""The parallel sizes of a run are not recorded, and other sizes give other weights for one seed."""
FRAMEWORK_UNKNOWN = Code("start_framework_unknown", "the framework of a run is not recorded")
"""Without the framework, one seed may give different weights."""
OTHER_GPUS = Code("start_other_gpus", "the GPUs differ, so one seed gives different initial weights")
"""Two kinds of GPU draw different random numbers from one seed."""
GPU_UNKNOWN = Code("start_gpu_unknown", "the GPU of a run is not recorded; another GPU gives other weights")
"""The GPU of a run is not recorded, and another kind gives other weights for one seed."""
OTHER_STACKS = Code("start_other_stacks", "the software versions differ, which may give other weights for one seed")
"""Two versions of framework or torch may draw different random numbers from one seed."""
STACK_UNKNOWN = Code("start_stack_unknown", "software versions are not recorded for every run")
"""The software versions of a run are not recorded, and another version may give other weights for one seed."""
DATA_UNKNOWN = Code("start_data_unknown", "data or data order may differ")
"""Whether both sides train on the same data in the same order is unknown."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """The unknown seed of a run, by the place of the run in its side."""

    at: int


@dataclass(frozen=True, slots=True)
class Start:
    """Two runs that may start from the same weights, by their places in their sides."""

    target: int
    baseline: int
    doubt: Reason | None
    """Why the weights may differ; None if they are equal."""
    one_stack: bool
    """Whether both runs used one kind of GPU and one software stack."""
    deterministic: bool
    """Whether both runs are known to use only deterministic kernels."""


def by_seed(side: Side) -> dict[Any, list[int]]:
    """The runs of a side by seed; a run of unknown seed counts as its own seed."""
    places: dict[Any, list[int]] = {}
    for at, subject in enumerate(side.subjects):
        seed = subject.value("training.seed")
        places.setdefault(Unknown(at) if seed is None else seed, []).append(at)
    return places


def starts(target: Side, baseline: Side) -> tuple[list[Start], Reason | None]:
    """Runs that may start alike; without any, the reason. Runs of one seed are matched; of declared weights, any."""
    seeds = by_seed(target), by_seed(baseline)
    common = [seed for seed in seeds[0] if seed in seeds[1] and not isinstance(seed, Unknown)]
    weights = [declared_weights(side) for side in (target, baseline)]
    if None not in weights and weights[0] != weights[1]:
        return [], Reason(OTHER_WEIGHTS, {"target": weights[0], "baseline": weights[1]}, keys=(WEIGHTS,))
    declared = None not in weights
    groups = [(seeds[0][seed], seeds[1][seed]) for seed in common]
    if not groups and declared:
        groups = [(list(range(len(target.subjects))), list(range(len(baseline.subjects))))]
    made, refused = [], Reason(NO_COMMON_SEED, keys=("training.seed",))
    for here, there in chain.from_iterable(product(*group) for group in groups):
        runs = target.subjects[here], baseline.subjects[there]
        apart, doubt = (None, None) if declared else weights_apart(runs)
        if apart is not None:
            refused = apart
            continue
        deterministic = all(known_value(run, DETERMINISTIC)[1] is True for run in runs)
        made.append(Start(here, there, doubt, next(stacks_apart(runs), None) is None, deterministic))
    return made, None if made else refused


def declared_weights(side: Side) -> str | None:
    """The initial weights that all runs of a side declare."""
    names = {known_value(subject, WEIGHTS)[1] for subject in side.subjects}
    return names.pop() if len(names) == 1 else None


def weights_apart(runs: tuple[Subject, Subject]) -> tuple[Reason | None, Reason | None]:
    """Why one seed gives two runs different weights for certain, or why it may."""
    known = [known_value(run, "platform.framework")[1] for run in runs]
    names = [run.run.manifest.framework for run in runs]
    if None not in known and known[0] != known[1]:
        return Reason(OTHER_FRAMEWORKS, keys=("platform.framework",)), None
    if None not in known and all(facts(name).portable_weights for name in names):
        return None, None
    cuts = [[known_value(run, key)[1] for run in runs] for key in CUTS]
    if any(None not in cut and cut[0] != cut[1] for cut in cuts):
        return Reason(OTHER_CUTS, keys=CUTS), None
    doubts: list[Reason] = []
    if None in known:
        doubts.append(Reason(FRAMEWORK_UNKNOWN, keys=("platform.framework",)))
    if any(None in cut for cut in cuts):
        doubts.append(Reason(CUTS_UNKNOWN, keys=CUTS))
    return None, next(iter([*doubts, *stacks_apart(runs)]), None)


def stacks_apart(runs: tuple[Subject, Subject]) -> Iterator[Reason]:
    """Why two runs may use two kinds of GPU or two software stacks."""
    gpus = [known_value(run, "platform.gpu")[1] for run in runs]
    if None in gpus:
        yield Reason(GPU_UNKNOWN, keys=("platform.gpu",))
    elif gpus[0] != gpus[1]:
        yield Reason(OTHER_GPUS, {"target": gpus[0], "baseline": gpus[1]}, keys=("platform.gpu",))
    stacks = [
        {name: version for name, version in run.run.manifest.software.items() if name not in _NO_STACK} for run in runs
    ]
    if not all(stacks):
        yield Reason(STACK_UNKNOWN)
    elif stacks[0] != stacks[1]:
        yield Reason(OTHER_STACKS)
