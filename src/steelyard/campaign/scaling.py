"""Scaling efficiency: tokens/s per GPU on N nodes relative to the fewest nodes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from steelyard.campaign import refused
from steelyard.comparison import codes, contract
from steelyard.comparison.copies import check_once
from steelyard.comparison.intervals import Words
from steelyard.comparison.ratios import Ratio, lacking, ratio
from steelyard.comparison.side import Side, side
from steelyard.errors import Exit
from steelyard.experiment.keys import blocking
from steelyard.experiment.policy import Metric
from steelyard.reasons import Effect, Reason
from steelyard.verdict import Subject, policy_of

SCALED = (
    "platform.nodes",
    "platform.world_size",
    "training.global_batch_size",
    "training.tokens_per_step",
    "training.gradient_accumulation_steps",
    "parallelism.data_parallel_size",
    "parallelism.fsdp_size",
)
"""Keys that may differ between node counts."""
TERMS = Words("above linear", "below linear")

Kind = Literal["weak", "strong"]
"""Weak: tokens per step and GPU stay the same. Strong: tokens per step stay the same."""


@dataclass(frozen=True, slots=True)
class Count:
    nodes: int
    gpus: int
    side: Side
    tokens_per_step: int | None

    @property
    def tokens_per_step_per_gpu(self) -> float | None:
        return None if self.tokens_per_step is None else self.tokens_per_step / self.gpus


@dataclass(frozen=True, slots=True)
class Larger:
    """A node count compared with the smallest."""

    count: Count
    kind: Kind | None
    """None if it is neither or unknown."""
    ruling: contract.Ruling
    efficiency: Ratio | None
    """None if the two are not comparable."""

    @property
    def exit(self) -> Exit:
        if self.ruling.status == contract.Comparability.NOT_COMPARABLE:
            return Exit.NOT_COMPARABLE
        return Exit.GOOD if self.efficiency is not None and self.efficiency.decided else Exit.UNKNOWN


@dataclass(frozen=True, slots=True)
class Scaling:
    smallest: Count
    larger: tuple[Larger, ...]

    @property
    def kind(self) -> str | None:
        """The kind of all counts; `mixed` if they differ."""
        kinds = {larger.kind for larger in self.larger} - {None}
        return "mixed" if len(kinds) > 1 else next(iter(kinds), None)

    @property
    def exit(self) -> Exit:
        """The worst of the counts: not comparable, then unknown."""
        ends = {larger.exit for larger in self.larger}
        return next(end for end in (Exit.NOT_COMPARABLE, Exit.UNKNOWN, Exit.GOOD) if end in ends)

    def document(self) -> dict[str, Any]:
        """What `runs scaling --json` prints."""
        return {
            "metric": "tokens_per_s_per_gpu",
            "scaling": self.kind,
            "smallest": _count_document(self.smallest),
            "counts": [
                {
                    **_count_document(larger.count),
                    "scaling": larger.kind,
                    "status": larger.ruling.status.value,
                    "reasons": [codes.sentence(reason) for reason in larger.ruling.reasons],
                    "reason_codes": [reason.code.name for reason in larger.ruling.reasons],
                    "efficiency": larger.efficiency.document() if larger.efficiency else None,
                }
                for larger in self.larger
            ],
        }


def _count_document(count: Count) -> dict[str, Any]:
    names = ("nodes", "gpus", "tokens_per_step", "tokens_per_step_per_gpu")
    runs = [str(subject.run.directory.resolve()) for subject in count.side.subjects]
    return {**{name: getattr(count, name) for name in names}, "runs": runs}


def scaling(subjects: Sequence[Subject]) -> Scaling:
    """Group runs by node count and compare each count with the smallest."""
    check_once("RUNS", subjects)
    groups: dict[int, list[Subject]] = {}
    for subject in subjects:
        groups.setdefault(_nodes(subject), []).append(subject)
    if len(groups) < 2:
        fix = "steelyard run FILE --nodes 2 --cluster cluster.yaml"
        problem = f"all runs used {_called(next(iter(groups)))}"
        raise refused("RUNS", problem, "runs with two node counts or more", next=fix)
    smallest, *larger = (_count(nodes, groups[nodes], nodes == min(groups)) for nodes in sorted(groups))
    margin = min(policy_of(subject.run).margin for subject in subjects)
    return Scaling(smallest, tuple(_compared(count, smallest, margin) for count in larger))


def _called(nodes: int) -> str:
    return f"{nodes} node{'s' * (nodes != 1)}"


def _nodes(subject: Subject) -> int:
    platform = subject.run.manifest.platform
    if platform.nodes is None or platform.world_size is None:
        place, counted = str(subject.run.directory), "nodes" if platform.nodes is None else "GPUs"
        problem, fix = f"{place} does not record its number of {counted}", "steelyard ingest LOG --nodes N --gpus M"
        raise refused("RUNS", problem, "runs with a recorded size", place, fix)
    return platform.nodes


def _count(nodes: int, subjects: Sequence[Subject], is_smallest: bool) -> Count:
    if (differing := contract.difference(subjects, [*blocking(Metric.THROUGHPUT), *contract.ONE_PLATFORM])) is not None:
        problem, expected = f"runs on {_called(nodes)}: {differing.message}", "runs of one job per node count"
        raise refused("RUNS", problem, expected, differing.keys[0])
    world = subjects[0].run.manifest.platform.world_size
    assert world is not None, "checked in _nodes"
    tokens = {subject.figures.tokens_per_step or None for subject in subjects}
    made = side("baseline" if is_smallest else "target", tuple(subjects), _called(nodes))
    return Count(nodes, world, made, tokens.pop() if len(tokens) == 1 else None)


def _compared(count: Count, smallest: Count, margin: float) -> Larger:
    sides, kind = (count.side, smallest.side), _kind(count, smallest)
    clauses = [clause for clause in contract.contract(*sides) if clause.dotted not in SCALED]
    differing = [*_platform_differences(count, smallest, clauses), *([kind] if isinstance(kind, Reason) else ())]
    reasons = [*differing, *lacking(Metric.THROUGHPUT, sides)]
    ruled = contract.ruling(Metric.THROUGHPUT, clauses, sides, "best").worsened(*reasons)
    efficiency = ratio(Metric.THROUGHPUT, *sides, margin, TERMS) if ruled.holds else None
    return Larger(count, None if isinstance(kind, Reason) else kind, ruled, efficiency)


def _platform_differences(count: Count, smallest: Count, clauses: Sequence[contract.Clause]) -> Iterator[Reason]:
    """Differences that make them two platforms."""
    sides = count.side, smallest.side
    for clause in clauses:
        if clause.dotted in contract.ONE_PLATFORM and clause.status == contract.Agreement.DIFFERENT:
            yield contract.differs(clause, sides, Effect.BLOCKS)
    if count.gpus * smallest.nodes != smallest.gpus * count.nodes:
        values = {"target": count.gpus, "baseline": smallest.gpus, "called": tuple(side.called for side in sides)}
        yield Reason(codes.NODE_SIZES_DIFFER, values, Effect.BLOCKS, "both")


def _kind(count: Count, smallest: Count) -> Kind | Reason:
    """Weak or strong, or the reason why it is neither or unknown."""
    more, fewer, keys = count.tokens_per_step, smallest.tokens_per_step, ("training.tokens_per_step",)
    if more is None or fewer is None:
        return Reason(codes.SCALING_UNKNOWN, effect=Effect.UNKNOWN, side="both", keys=keys)
    if more * smallest.gpus == fewer * count.gpus:
        return "weak"
    if more == fewer:
        return "strong"
    values = {"target": more, "baseline": fewer, "called": (count.side.called, smallest.side.called)}
    return Reason(codes.SCALING_NEITHER, values, Effect.BLOCKS, "both", keys)
