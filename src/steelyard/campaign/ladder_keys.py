"""The settings that a ladder can change: those that govern throughput, in the order of its rungs."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from steelyard.comparison.contract import Agreement, Clause
from steelyard.experiment.keys import KEYS, STATED, defaults
from steelyard.experiment.policy import Metric

GROUPS: Mapping[str, tuple[str, ...]] = {
    "batch": ("training.micro_batch_size", "training.global_batch_size"),
    "sequence-length": ("training.sequence_length",),
    "parallelism": ("parallelism.",),
    "precision": ("precision.",),
    "recompute": ("training.recompute",),
    "kernels": ("kernels.",),
    "overheads": ("",),
}
"""Named changes in their order, each with how its keys begin; the first match counts."""
COMPUTED = ("training.tokens_per_step", "training.gradient_accumulation_steps", "parallelism.data_parallel_size")
"""Keys that follow from others."""
MODEL, KERNELS = "model.", "kernels."


@dataclass(frozen=True, slots=True)
class Change:
    """One setting, before and after a step."""

    key: str
    before: Any
    after: Any


def governs(key: str) -> bool:
    """Whether a difference may change throughput. Kernels do, although any platform may use its own."""
    known = KEYS.get(key) or STATED.get(key)
    by_policy = known is not None and Metric.THROUGHPUT in known.policy.effects
    return key not in COMPUTED and (by_policy or key.startswith(KERNELS))


def is_settable(key: str) -> bool:
    """Whether a rung can change it: an experiment file has it, and the model stays the same."""
    return key in defaults() and governs(key) and not key.startswith(MODEL)


def is_of_the_rest(key: str) -> bool:
    """Whether the rest may contain a difference: of the model it may not, because that is other work."""
    return key.startswith("platform.") or (governs(key) and not key.startswith(MODEL))


def differing(clauses: Iterable[Clause], belongs: Callable[[str], bool]) -> Iterator[Change]:
    """The differences of a contract, from the baseline to the target."""
    for clause in clauses:
        if clause.status == Agreement.DIFFERENT and belongs(clause.dotted):
            yield Change(clause.dotted, clause.baseline, clause.target)


def group_of(key: str) -> str:
    """The change that a key belongs to."""
    return next(name for name, starts in GROUPS.items() if key.startswith(starts))
