"""The contract: where two sides differ, and whether each metric is therefore comparable."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from steelyard import reasons
from steelyard.comparison import codes, identity, site
from steelyard.comparison.copies import check_once
from steelyard.comparison.side import Side
from steelyard.errors import InputError
from steelyard.experiment.experiment import Mode
from steelyard.experiment.keys import KEYS, STATED, UNSTATED, Key, blocking
from steelyard.experiment.platform import FRAMEWORKS
from steelyard.experiment.policy import JOB, LAYOUT, Effect, Effects, Metric, Policy
from steelyard.files import place_of
from steelyard.frameworks.logs.settings import SAME_SHARE
from steelyard.frameworks.registry import facts
from steelyard.reasons import Reason, SideName
from steelyard.verdict import Status, Subject
from steelyard.verdict.reported_flops import ABOUT_FORMULAS

_RATES = {Metric.THROUGHPUT: Effect.BLOCKS, Metric.FLOPS: Effect.BLOCKS}
OWN_FIGURES: Mapping[str, Effects] = {
    **dict.fromkeys(("throughput_identity", "peak_flops"), _RATES),
    "step_times": {Metric.THROUGHPUT: Effect.QUALIFIES, Metric.FLOPS: Effect.QUALIFIES},
    "memory_capacity": Policy(memory=Effect.BLOCKS).effects,
    "plan_identity": JOB.effects,
    **dict.fromkeys(("batch_identity", "world_identity", "skipped_steps", "errors"), LAYOUT.effects),
    **dict.fromkeys(("steps_present", "completed", "loss_finite", "loss_falling", "loss_floor"), LAYOUT.effects),
}
"""What a failed finding of one side does: measurements that contradict each other block. Declared batch and layout are
caveats only, because ratios use the recorded tokens."""
UNKNOWN_QUALIFIES = ("completed", "steps_present", "loss_finite", "throughput_identity", "step_times")
"""Findings that are caveats when they are unknown."""
ONE_PLATFORM = ("platform.gpu", "platform.framework")
"""Keys in which the sides may differ, but not the runs of one side."""


_AMONG = {name: key.among for name, key in KEYS.items() if key.among}


class Agreement(StrEnum):
    EQUAL = "equal"
    DIFFERENT = "different"
    UNKNOWN = "unknown"


class Comparability(StrEnum):
    COMPARABLE = "comparable"
    QUALIFIED = "qualified"
    UNKNOWN = "unknown"
    NOT_COMPARABLE = "not_comparable"


class WeightsSeed(int):
    """A data seed that its framework sets to the weight seed: the same policy applies."""

    def __str__(self) -> str:
        return f"{int(self)} (same as training.seed)"


class TrainedShare(float):
    """Share of the tokens of a step that is trained on; padding and masks vary between batches."""

    def __str__(self) -> str:
        return f"{100 * self:.3g}% of the tokens"


_STATUS_OF: Mapping[reasons.Effect | None, Comparability] = {
    reasons.Effect.BLOCKS: Comparability.NOT_COMPARABLE,
    reasons.Effect.UNKNOWN: Comparability.UNKNOWN,
    reasons.Effect.CAVEAT: Comparability.QUALIFIED,
}
"""Worst first."""


@dataclass(frozen=True, slots=True)
class Clause:
    group: str
    key: str
    target: Any
    baseline: Any
    status: Agreement
    governs: Effects
    """The effect of a difference on each metric."""
    unknown_of: SideName = "both"
    target_source: str | None = None
    """Where the value comes from: log, config, set, a preset, or a framework default."""
    baseline_source: str | None = None

    @property
    def dotted(self) -> str:
        return f"{self.group}.{self.key}"

    def document(self) -> dict[str, Any]:
        names = ("group", "key", "target", "baseline", "target_source", "baseline_source")
        governs = {metric.value: effect.value for metric, effect in self.governs.items()}
        return {**{name: getattr(self, name) for name in names}, "status": self.status.value, "governs": governs}


@dataclass(frozen=True, slots=True)
class Ruling:
    reasons: tuple[Reason, ...] = ()
    """Worst first."""

    @property
    def status(self) -> Comparability:
        return _STATUS_OF[self.reasons[0].effect] if self.reasons else Comparability.COMPARABLE

    @property
    def holds(self) -> bool:
        """Whether the metric may be compared."""
        return self.status in (Comparability.COMPARABLE, Comparability.QUALIFIED)

    @property
    def decisive(self) -> tuple[Reason, ...]:
        """The reasons with the worst effect."""
        return tuple(reason for reason in self.reasons if reason.effect == self.reasons[0].effect)

    def document(self) -> dict[str, Any]:
        return {"status": self.status.value, "reasons": [reason.document() for reason in self.reasons]}

    def worsened(self, *more: Reason) -> "Ruling":
        worst = list(_STATUS_OF)
        return Ruling(tuple(sorted((*self.reasons, *more), key=lambda reason: worst.index(reason.effect))))


def effect_in(mode: Mode, difference: Effect) -> reasons.Effect:
    """The effect of a difference: in matched mode every caveat blocks."""
    if difference == Effect.UNKNOWN:
        return reasons.Effect.UNKNOWN
    return reasons.Effect.BLOCKS if difference == Effect.BLOCKS or mode == "matched" else reasons.Effect.CAVEAT


def alike(value: Any, other: Any) -> bool:
    """Whether two values of a parameter are equal; numbers may differ in their last digits."""
    if isinstance(value, WeightsSeed) or isinstance(other, WeightsSeed):
        return True
    if isinstance(value, TrainedShare) and isinstance(other, TrainedShare):
        return abs(value - other) <= SAME_SHARE
    if isinstance(value, site.Clock) and isinstance(other, site.Clock):
        return value.is_like(other)
    numbers = all(isinstance(each, int | float) and not isinstance(each, bool) for each in (value, other))
    return math.isclose(value, other, rel_tol=1e-9) if numbers else bool(value == other)


def known_value(subject: Subject, dotted: str) -> tuple[bool, Any]:
    """Whether a parameter of one run is known, and its value: recorded figures before declared ones."""
    manifest = subject.run.manifest
    match dotted:
        case "training.tokens_per_step":
            value: Any = subject.figures.tokens_per_step
        case "platform.world_size":
            value = manifest.platform.world_size
        case "platform.nodes":
            value = manifest.platform.nodes
        case "platform.gpu":
            value = manifest.platform.gpu or manifest.platform.gpu_name
        case "platform.framework":
            value = manifest.framework if manifest.framework in FRAMEWORKS else None
        case _ if dotted in site.KEYS:
            value = site.recorded(subject, dotted)
        case "measurement.memory_kind":
            value = subject.figures.memory_kind
        case "model.max_position_embeddings" if subject.value("model.rope_theta") is not None:
            return True, None  # rotary positions have no learned table
        case _ if dotted in identity.WITHOUT_CORPUS and subject.value("data.source") in identity.GENERATED:
            return True, None  # generated data has neither files nor shares
        case "training.decay_steps":
            known, value = subject.known(dotted)
            return (known, value) if value is not None else subject.known("training.steps") if known else (False, None)
        case "data.seed" if facts(manifest.framework).one_seed:
            known, value = subject.known(dotted)
            return known, WeightsSeed(value) if known and value == subject.value("training.seed") else value
        case "data.trained_share":
            known, value = stated(subject, dotted)
            return known, TrainedShare(value if value < 1 - SAME_SHARE else 1.0) if known else value
        case _ if dotted in STATED:
            return stated(subject, dotted)
        case _:
            return subject.known(dotted)
    return value is not None, value


def stated(subject: Subject, dotted: str) -> tuple[bool, Any]:
    """A value without an experiment key: from the log, or the value of every Steelyard plan."""
    manifest = subject.run.manifest
    if dotted == identity.EMBEDDED and facts(manifest.framework).pads_vocabulary is False:
        return subject.known(identity.VOCABULARY)
    if manifest.experiment.states(dotted):  # by --set, or assumed
        return manifest.experiment.known(dotted)
    if dotted == identity.EMBEDDED and manifest.ingested is None:
        size, tensor = subject.whole(identity.VOCABULARY), subject.whole("parallelism.tensor_parallel_size")
        return (True, facts(manifest.framework).padded_vocabulary(size, tensor)) if size and tensor else (False, None)
    if manifest.ingested is None:
        planned = STATED[dotted].planned
        return (False, None) if planned is UNSTATED else (True, planned)
    setting = manifest.ingested.said.get(dotted.partition(".")[2])
    return setting is not None and setting.value is not None, setting.value if setting else None


def contract(target: Side, baseline: Side) -> tuple[Clause, ...]:
    """Every parameter of the policy on both sides, and further settings that a log contains."""
    sizes = tuple(side.subjects[0].value(identity.VOCABULARY) for side in (target, baseline))
    usual = {name: key.usual for name, key in {**KEYS, **STATED}.items() if key.usual or name in STATED}
    usual[identity.EMBEDDED] = sizes
    clauses = identity.settled([_clause(key, target, baseline) for key in (*KEYS.values(), *STATED.values())])
    listed = [each for each in clauses if each.dotted not in usual or _is_listed(each, usual[each.dotted])]
    equal = {clause.dotted for clause in clauses if clause.status == Agreement.EQUAL}
    return tuple(each for each in listed if not (among := _AMONG.get(each.dotted)) or _applies(each, among, equal))


def _applies(clause: Clause, among: str, equal: Collection[str]) -> bool:
    """Whether a key that matters only where another is equal is known for both sides."""
    return among in equal and clause.status != Agreement.UNKNOWN


def _is_listed(clause: Clause, usual: Sequence[Any]) -> bool:
    """Known for both sides, or for one with an unusual value."""
    values = [value for value in (clause.target, clause.baseline) if value is not None]
    return clause.status != Agreement.UNKNOWN or any(value not in usual for value in values)


def _clause(key: Key, target: Side, baseline: Side) -> Clause:
    dotted, effects, sides = key.name, key.policy.effects, (target, baseline)
    known, values = zip(*(_of_side(side, dotted) for side in sides), strict=True)
    unknown_of: SideName = "both" if known[0] == known[1] else "baseline" if known[0] else "target"
    status = Agreement.UNKNOWN
    if all(known):
        status = Agreement.EQUAL if alike(*values) else Agreement.DIFFERENT
        if any(isinstance(value, WeightsSeed) for value in values):
            seeds = [sorted({known_value(subject, dotted)[1] for subject in side.subjects}) for side in sides]
            values = tuple(own if len(own) > 1 else own[0] for own in seeds)  # the policy of the weight seed
            status, effects = (status, effects) if values[0] == values[1] else (Agreement.DIFFERENT, {})
    group, _, name = dotted.partition(".")
    sources = (side.subjects[0].run.manifest.sources.get(dotted) for side in sides)
    return Clause(group, name, values[0], values[1], status, effects, unknown_of, *sources)


def _of_side(side: Side, dotted: str) -> tuple[bool, Any]:
    """The value that all runs of a side share, or all their values."""
    values = [known_value(subject, dotted) for subject in side.subjects]
    first = values[0]
    if all(known == first[0] and alike(value, first[1]) for known, value in values):
        return first
    shown = [value for known, value in values if known]
    return len(shown) == len(values), sorted(map(str, shown))


def check_side(side: Side, accepted: Collection[str] = ()) -> None:
    """Raise an error if the runs of a side differ in a blocking key or in the platform, or are copies."""
    check_once(side.name.upper(), side.subjects)
    keys = [key for key in blocking(*Metric) if key not in accepted]
    if (reason := difference(side.subjects, [*keys, *ONE_PLATFORM])) is not None:
        key = reason.keys[0]
        where = {"key": side.name.upper(), "value": key}
        expected, advice = "runs of one experiment on each side", f"use only runs with one {key} on a side"
        advice += "" if key in ONE_PLATFORM else f", or --accept {key}=REASON"
        raise InputError(f"{side.name}: {reason.message}", **where, expected=expected, next=advice)


def difference(subjects: Sequence[Subject], keys: Sequence[str]) -> Reason | None:
    """The first of these parameters in which two runs are known to differ."""
    for dotted in keys:
        runs = [(name, value) for name, (known, value) in _by_run(subjects, dotted) if known]
        for name, value in runs[1:]:
            first, expected = runs[0]
            if not alike(value, expected):
                values = {"key": dotted, "runs": (first, name), "run_values": (expected, value)}
                return Reason(codes.RUNS_DIFFER, values, keys=(dotted,))
    return None


def partly_known(subjects: Sequence[Subject], keys: Sequence[str]) -> Reason | None:
    """The first of these parameters that is known for one run and unknown for another."""
    for dotted in keys:
        names = {known: name for name, (known, _) in _by_run(subjects, dotted)}
        if len(names) == 2:
            values = {"key": dotted, "known": names[True], "unknown": names[False]}
            return Reason(codes.PARTLY_KNOWN, values, keys=(dotted,))
    return None


def _by_run(subjects: Sequence[Subject], dotted: str) -> list[tuple[str, tuple[bool, Any]]]:
    places = [subject.run.directory for subject in subjects]
    names = [place.name for place in places]
    if len(set(names)) < len(names):
        names = list(map(place_of, places))
    return [(name, known_value(subject, dotted)) for name, subject in zip(names, subjects, strict=True)]


def ruling(metric: Metric, clauses: Sequence[Clause], sides: Sequence[Side], mode: Mode) -> Ruling:
    return Ruling().worsened(*_by_contract(metric, clauses, sides, mode), *_by_findings(metric, sides, mode))


def differs(clause: Clause, sides: Sequence[Side], effect: reasons.Effect) -> Reason:
    code = codes.IDENTITY_UNKNOWN if effect == reasons.Effect.UNKNOWN else codes.SETTING_DIFFERS
    values = {"key": clause.dotted, "target": clause.target, "baseline": clause.baseline}
    called = tuple(side.called for side in sides)
    return codes.because(code, effect, "both", clause.dotted, **values, called=called)


def _by_contract(metric: Metric, clauses: Sequence[Clause], sides: Sequence[Side], mode: Mode) -> Iterator[Reason]:
    unknown: dict[tuple[reasons.Effect, SideName], list[str]] = {}
    for clause in clauses:
        governs = clause.governs.get(metric)
        if governs is None or clause.status == Agreement.EQUAL:
            continue
        effect = effect_in(mode, governs)
        if clause.status == Agreement.DIFFERENT:
            yield differs(clause, sides, effect)
        else:
            if effect == reasons.Effect.BLOCKS:
                effect = reasons.Effect.UNKNOWN
            unknown.setdefault((effect, clause.unknown_of), []).append(clause.dotted)
    names: dict[SideName, str] = {"both": " or ".join(side.called for side in sides)}
    names |= {side.name: side.called for side in sides}
    for (effect, side), keys in unknown.items():
        yield codes.because(codes.SETTINGS_UNKNOWN, effect, side, *keys, keys=tuple(keys), sides=names[side])


def _by_findings(metric: Metric, sides: Sequence[Side], mode: Mode) -> Iterator[Reason]:
    judged = ((side, *run) for side in sides for run in zip(side.subjects, side.verdicts, strict=True))
    for side, subject, verdict in judged:
        run = side.run_name(subject)
        for finding in verdict.findings:
            governs = OWN_FIGURES.get(finding.check, {}).get(metric)
            unknown = finding.status == Status.UNKNOWN
            if governs is None or finding.status == Status.PASS or (unknown and finding.check not in UNKNOWN_QUALIFIES):
                continue
            if finding.code in ABOUT_FORMULAS and metric != Metric.FLOPS:
                continue
            effect = reasons.Effect.CAVEAT if unknown else effect_in(mode, governs)
            if unknown:
                code = codes.CHECK_UNKNOWN
            elif governs == Effect.BLOCKS:
                code = codes.FIGURES_CONTRADICT
            else:
                code = codes.CHECK_FAILED if effect == reasons.Effect.CAVEAT else codes.CHECK_FAILED_MATCHED
            yield codes.because(code, effect, side.name, run=run, check=finding.check, finding=finding.message)
