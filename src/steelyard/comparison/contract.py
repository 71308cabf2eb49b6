"""The contract: where two sides differ, and what each comparison is therefore worth."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from steelyard.comparison.copies import check_once
from steelyard.comparison.policy import (
    OWN_FIGURES,
    PLANNED,
    POLICY,
    STATED,
    UNKNOWN_QUALIFIES,
    USUAL,
    Effect,
    Effects,
    Metric,
    blocking,
)
from steelyard.comparison.side import Side
from steelyard.errors import InputError
from steelyard.experiment.experiment import Mode
from steelyard.experiment.platform import FRAMEWORKS
from steelyard.frameworks.logs.settings import SAME_SHARE
from steelyard.frameworks.registry import facts
from steelyard.verdict import Status, Subject


class Agreement(StrEnum):
    EQUAL = "equal"
    DIFFERENT = "different"
    UNKNOWN = "unknown"


class Comparability(StrEnum):
    COMPARABLE = "comparable"
    QUALIFIED = "qualified"
    UNKNOWN = "unknown"
    NOT_COMPARABLE = "not_comparable"


ONE_PLATFORM = ("platform.gpu", "platform.framework")
"""What two sides may differ in, and the runs of one side not."""


class WeightsSeed(int):
    """A seed of the data that cannot be another than the weights': it is as free as that is."""

    def __str__(self) -> str:
        return f"{int(self)}, as training.seed"


class TrainedShare(float):
    """Of the tokens of a step, those that are trained on: padding and masks differ from batch to batch."""

    def __str__(self) -> str:
        return f"{100 * self:.3g} % of its tokens"


EITHER = "either side"
"""Of whom a value is not known, where nobody knows it."""

_WORST = (Comparability.NOT_COMPARABLE, Comparability.UNKNOWN, Comparability.QUALIFIED, Comparability.COMPARABLE)


@dataclass(frozen=True, slots=True)
class Clause:
    """One parameter, on both sides."""

    group: str
    key: str
    target: Any
    baseline: Any
    status: Agreement
    governs: Effects
    """What it does to each metric where the sides differ."""
    unknown_of: str = EITHER
    """Which side's value is not known, where the status says so."""
    target_source: str | None = None
    """Where the value comes from: log, config, set, a preset, or the default of its framework."""
    baseline_source: str | None = None

    @property
    def dotted(self) -> str:
        return f"{self.group}.{self.key}"


@dataclass(frozen=True, slots=True)
class Ruling:
    """What one comparison is worth, and why."""

    told: tuple[tuple[Comparability, str], ...] = ()
    """Reasons, each with what it makes of the comparison."""

    @property
    def status(self) -> Comparability:
        """The worst of them."""
        return min((status for status, _ in self.told), key=_WORST.index, default=Comparability.COMPARABLE)

    @property
    def reasons(self) -> tuple[str, ...]:
        """The worst first."""
        return tuple(reason for _, reason in sorted(self.told, key=lambda one: _WORST.index(one[0])))

    def worsened(self, status: Comparability, reason: str) -> "Ruling":
        """With one more reason; the worst status stands."""
        return Ruling((*self.told, (status, reason)))

    def affected(self, effect: Effect, mode: Mode, reason: str) -> "Ruling":
        """With what a difference does to it in a mode: one that only qualifies says so."""
        status = _status(effect, mode)
        return self.worsened(status, f"qualified: {reason}" if status == Comparability.QUALIFIED else reason)


def alike(one: Any, other: Any) -> bool:
    """Whether two values of a parameter are one: numbers but for their last digits, and what cannot be set apart."""
    if isinstance(one, WeightsSeed) or isinstance(other, WeightsSeed):
        return True
    if isinstance(one, TrainedShare) and isinstance(other, TrainedShare):
        return abs(one - other) <= SAME_SHARE
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in (one, other))
    return math.isclose(one, other, rel_tol=1e-9) if numbers else bool(one == other)


def known_value(subject: Subject, dotted: str) -> tuple[bool, Any]:
    """A parameter of one run as the contract sees it: recorded figures before declared ones."""
    manifest = subject.run.manifest
    match dotted:
        case "training.tokens_per_step":
            found: Any = subject.figures.tokens_per_step
        case "platform.world_size":
            found = manifest.platform.world_size
        case "platform.nodes":
            found = manifest.platform.nodes
        case "platform.gpu":
            found = manifest.platform.gpu or manifest.platform.gpu_name
        case "platform.framework":
            found = manifest.framework if manifest.framework in FRAMEWORKS else None
        case "measurement.memory_kind":
            found = subject.figures.memory_kind
        case "model.max_position_embeddings" if subject.value("model.rope_theta") is not None:
            return True, None  # nothing is learnt of a position that is turned
        case "training.decay_steps":
            known, found = subject.known(dotted)
            return (known, found) if found is not None else subject.known("training.steps") if known else (False, None)
        case "data.seed" if facts(manifest.framework).one_seed:
            known, found = subject.known(dotted)
            return known, WeightsSeed(found) if known and found == subject.value("training.seed") else found
        case "data.trained_share":
            known, found = stated(subject, dotted)
            return known, TrainedShare(found if found < 1 - SAME_SHARE else 1.0) if known else found
        case _ if dotted in STATED:
            return stated(subject, dotted)
        case _:
            return subject.known(dotted)
    return found is not None, found


def stated(subject: Subject, dotted: str) -> tuple[bool, Any]:
    """What no experiment has a key for: by the log's own word, or as every plan of ours has it."""
    manifest = subject.run.manifest
    ingested = manifest.ingested
    if dotted == "model.padded_vocab_size" and facts(manifest.framework).pads_vocabulary is False:
        return subject.known("model.vocab_size")
    if ingested is None:
        return dotted in PLANNED, PLANNED.get(dotted)
    said = ingested.said.get(dotted.partition(".")[2])
    return said is not None and said.value is not None, said.value if said else None


def contract(target: Side, baseline: Side) -> tuple[Clause, ...]:
    """Every parameter of the policy on both sides, and what a log states beside them."""
    governed = [_clause(dotted, effects, target, baseline) for dotted, effects in POLICY.items()]
    beside = (_clause(dotted, effects, target, baseline) for dotted, effects in STATED.items())
    sizes = [side.subjects[0].value("model.vocab_size") for side in (target, baseline)]
    usual = {**USUAL, "model.padded_vocab_size": sizes}
    return (*governed, *(clause for clause in beside if _is_said(clause, usual.get(clause.dotted, []))))


def _is_said(clause: Clause, usual: Sequence[Any]) -> bool:
    """Known of both sides; or of one, and not what it mostly is."""
    stated = [value for value in (clause.target, clause.baseline) if value is not None]
    return clause.status != Agreement.UNKNOWN or any(value not in usual for value in stated)


def _clause(dotted: str, effects: Effects, target: Side, baseline: Side) -> Clause:
    (known_target, ours), (known_baseline, theirs) = (_of_side(side, dotted) for side in (target, baseline))
    unknown_of = EITHER if known_target == known_baseline else (baseline if known_target else target).called
    if not (known_target and known_baseline):
        status = Agreement.UNKNOWN
    else:
        status = Agreement.EQUAL if alike(ours, theirs) else Agreement.DIFFERENT
    if status != Agreement.UNKNOWN and (isinstance(ours, WeightsSeed) or isinstance(theirs, WeightsSeed)):
        ours, theirs = (_seeds(side, dotted) for side in (target, baseline))
        status, effects = (status, effects) if ours == theirs else (Agreement.DIFFERENT, {})
    group, _, key = dotted.partition(".")
    sources = (_source(side, dotted) for side in (target, baseline))
    return Clause(group, key, ours, theirs, status, effects, unknown_of, *sources)


def _seeds(side: Side, dotted: str) -> Any:
    """What each run has: it need not be one, being as free as the weights'."""
    found = sorted({known_value(subject, dotted)[1] for subject in side.subjects})
    return found if len(found) > 1 else found[0]


def _source(side: Side, dotted: str) -> str | None:
    """Where the first run has it from; what is recorded or of the platform needs no source."""
    return side.subjects[0].run.manifest.sources.get(dotted)


def _of_side(side: Side, dotted: str) -> tuple[bool, Any]:
    """The value all runs of a side share; their values together where they differ in what does not block."""
    values = [known_value(subject, dotted) for subject in side.subjects]
    first = values[0]
    if all(known == first[0] and alike(value, first[1]) for known, value in values):
        return first
    shown = [value for known, value in values if known]
    return len(shown) == len(values), sorted(map(str, shown))


def check_side(side: Side) -> None:
    """Refuse a side whose own runs differ in what blocks a comparison or makes another platform, or are one run."""
    check_once(side.name.upper(), side.subjects)
    found = difference(side.subjects, [*blocking(*Metric), *ONE_PLATFORM])
    if found is not None:
        raise InputError(
            f"{side.name}: {found.words}",
            key=side.name.upper(),
            value=found.key,
            expected="runs of one experiment on each side",
            next="compare them one by one",
        )


@dataclass(frozen=True, slots=True)
class Difference:
    """Two runs that should have been alike."""

    key: str
    words: str


def difference(subjects: Sequence[Subject], keys: Sequence[str]) -> Difference | None:
    """The first of these parameters in which two runs are known to differ."""
    for dotted in keys:
        known = [(name, value) for name, (is_known, value) in _by_run(subjects, dotted) if is_known]
        for name, value in known[1:]:
            if not alike(value, known[0][1]):
                values = f"{known[0][1]} and {value}"
                return Difference(dotted, f"{known[0][0]} and {name} differ in {dotted} ({values})")
    return None


def partly_known(subjects: Sequence[Subject], keys: Sequence[str]) -> Difference | None:
    """The first of these parameters that is known of one run and not of another."""
    for dotted in keys:
        names = {is_known: name for name, (is_known, _) in _by_run(subjects, dotted)}
        if len(names) == 2:
            return Difference(dotted, f"{dotted} is known of {names[True]} and not of {names[False]}")
    return None


def _by_run(subjects: Sequence[Subject], dotted: str) -> list[tuple[str, tuple[bool, Any]]]:
    places = [one.run.directory for one in subjects]
    names = [place.name for place in places]
    if len(set(names)) < len(names):
        names = list(map(str, places))
    return [(name, known_value(one, dotted)) for name, one in zip(names, subjects, strict=True)]


def ruling(metric: Metric, clauses: Sequence[Clause], sides: Sequence[Side], mode: Mode) -> Ruling:
    """Blocked beats unknown beats qualified."""
    return Ruling((*_by_contract(metric, clauses, sides, mode), *_by_own_figures(metric, sides, mode)))


def _status(effect: Effect, mode: Mode) -> Comparability:
    blocks = effect == Effect.BLOCKS or mode == "matched"
    return Comparability.NOT_COMPARABLE if blocks else Comparability.QUALIFIED


def _by_contract(
    metric: Metric, clauses: Sequence[Clause], sides: Sequence[Side], mode: Mode
) -> Iterator[tuple[Comparability, str]]:
    target, baseline = (side.called for side in sides)
    unknown: dict[tuple[bool, str], list[str]] = {}
    for clause in clauses:
        effect = clause.governs.get(metric)
        if effect is None or clause.status == Agreement.EQUAL:
            continue
        if clause.status == Agreement.DIFFERENT:
            status = _status(effect, mode)
            prefix = "qualified: " if status == Comparability.QUALIFIED else ""
            values = f"{shown(clause.target)} on {target}, {shown(clause.baseline)} on {baseline}"
            yield status, f"{prefix}{clause.dotted} differs: {values}"
        else:
            blocks = effect == Effect.BLOCKS or mode == "matched"
            unknown.setdefault((blocks, clause.unknown_of), []).append(clause.dotted)
    for (blocks, whose), keys in unknown.items():
        reason = f"{_listed(keys)} {'is' if len(keys) == 1 else 'are'} not known of {whose}"
        yield (Comparability.UNKNOWN, reason) if blocks else (Comparability.QUALIFIED, f"qualified: {reason}")


def _listed(keys: Sequence[str]) -> str:
    """`training.{steps, seed}, data.path`: each group said once."""
    groups: dict[str, list[str]] = {}
    for dotted in keys:
        group, _, key = dotted.partition(".")
        groups.setdefault(group, []).append(key)
    return ", ".join(
        f"{group}.{names[0]}" if len(names) == 1 else f"{group}.{{{', '.join(names)}}}"
        for group, names in groups.items()
    )


def _by_own_figures(metric: Metric, sides: Sequence[Side], mode: Mode) -> Iterator[tuple[Comparability, str]]:
    for side in sides:
        for verdict in side.verdicts:
            for finding in verdict.findings:
                effect = OWN_FIGURES.get(finding.check, {}).get(metric)
                run = f"{side.called} ({verdict.run.resolve().name})"
                if effect is None or finding.status == Status.PASS:
                    continue
                if finding.status == Status.UNKNOWN:
                    if finding.check in UNKNOWN_QUALIFIES:
                        yield (
                            Comparability.QUALIFIED,
                            f"qualified: {finding.check} of {run} is not known: {finding.message}",
                        )
                    continue
                status = _status(effect, mode)
                prefix = "by its own figures" if effect == Effect.BLOCKS else "qualified:"
                if status == Comparability.NOT_COMPARABLE and effect == Effect.QUALIFIES:
                    prefix = "in matched mode"
                yield status, f"{prefix} {run} fails {finding.check}: {finding.message}"


def shown(value: Any) -> str:
    """A parameter's value as a sentence says it."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return ", ".join(f"{key} {shown(one)}" for key, one in value.items())
    if isinstance(value, list):
        return ", ".join(map(shown, value))
    return f"{value:,}" if type(value) is int else str(value)
