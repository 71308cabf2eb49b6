"""The contract: where two sides differ, and what each comparison is therefore worth."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from steelyard import reasons
from steelyard.comparison import codes
from steelyard.comparison.copies import check_once
from steelyard.comparison.side import Side
from steelyard.errors import InputError
from steelyard.experiment.experiment import Mode
from steelyard.experiment.keys import KEYS, STATED, UNSTATED, Key, blocking
from steelyard.experiment.platform import FRAMEWORKS
from steelyard.experiment.policy import JOB, LAYOUT, Effect, Effects, Metric, Policy
from steelyard.frameworks.logs.settings import SAME_SHARE
from steelyard.frameworks.registry import facts
from steelyard.reasons import Reason, SideName
from steelyard.verdict import Status, Subject

OWN_FIGURES: Mapping[str, Effects] = {
    **dict.fromkeys(("throughput_identity", "peak_flops"), Policy(Effect.BLOCKS).effects),
    "memory_capacity": Policy(memory=Effect.BLOCKS).effects,
    "plan_identity": JOB.effects,
    **dict.fromkeys(("batch_identity", "world_identity", "skipped_steps", "errors"), LAYOUT.effects),
    **dict.fromkeys(("steps_present", "completed", "loss_finite", "loss_falling", "loss_floor"), LAYOUT.effects),
}
"""What a failed finding of one side does: measurements that contradict themselves refuse it. Declared batch and layout
only qualify, since the ratio stands on the tokens that were recorded."""
UNKNOWN_QUALIFIES = ("completed", "steps_present", "loss_finite", "throughput_identity")
"""Findings that, not known of a side, are caveats of its ratios."""
ONE_PLATFORM = ("platform.gpu", "platform.framework")
"""What two sides may differ in, and the runs of one side not."""


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
    """A seed of the data that cannot be another than the weights': it is as free as that is."""

    def __str__(self) -> str:
        return f"{int(self)}, as training.seed"


class TrainedShare(float):
    """Of the tokens of a step, those that are trained on: padding and masks differ from batch to batch."""

    def __str__(self) -> str:
        return f"{100 * self:.3g} % of its tokens"


_STATUS_OF: Mapping[reasons.Effect | None, Comparability] = {
    reasons.Effect.BLOCKS: Comparability.NOT_COMPARABLE,
    reasons.Effect.UNKNOWN: Comparability.UNKNOWN,
    reasons.Effect.CAVEAT: Comparability.QUALIFIED,
}
"""The worst first."""


@dataclass(frozen=True, slots=True)
class Clause:
    group: str
    key: str
    target: Any
    baseline: Any
    status: Agreement
    governs: Effects
    """What it does to each metric where the sides differ."""
    unknown_of: SideName = "both"
    target_source: str | None = None
    """Where the value comes from: log, config, set, a preset, or the default of its framework."""
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
    """The worst first."""

    @property
    def status(self) -> Comparability:
        return _STATUS_OF[self.reasons[0].effect] if self.reasons else Comparability.COMPARABLE

    @property
    def holds(self) -> bool:
        """Whether the comparison may be made."""
        return self.status in (Comparability.COMPARABLE, Comparability.QUALIFIED)

    @property
    def decisive(self) -> tuple[Reason, ...]:
        return tuple(reason for reason in self.reasons if reason.effect == self.reasons[0].effect)

    def document(self) -> dict[str, Any]:
        return {"status": self.status.value, "reasons": [reason.document() for reason in self.reasons]}

    def worsened(self, *more: Reason) -> "Ruling":
        worst = list(_STATUS_OF)
        return Ruling(tuple(sorted((*self.reasons, *more), key=lambda reason: worst.index(reason.effect))))


def effect_in(mode: Mode, difference: Effect) -> reasons.Effect:
    """What a difference does in a mode: matched refuses what would qualify."""
    return reasons.Effect.BLOCKS if difference == Effect.BLOCKS or mode == "matched" else reasons.Effect.CAVEAT


def alike(value: Any, other: Any) -> bool:
    """Whether two values of a parameter are one: numbers but for their last digits, and what cannot be set apart."""
    if isinstance(value, WeightsSeed) or isinstance(other, WeightsSeed):
        return True
    if isinstance(value, TrainedShare) and isinstance(other, TrainedShare):
        return abs(value - other) <= SAME_SHARE
    numbers = all(isinstance(each, int | float) and not isinstance(each, bool) for each in (value, other))
    return math.isclose(value, other, rel_tol=1e-9) if numbers else bool(value == other)


def known_value(subject: Subject, dotted: str) -> tuple[bool, Any]:
    """A parameter of one run as the contract sees it: recorded figures before declared ones."""
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
        case "measurement.memory_kind":
            value = subject.figures.memory_kind
        case "model.max_position_embeddings" if subject.value("model.rope_theta") is not None:
            return True, None  # nothing is learnt of a position that is turned
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
    """What no experiment has a key for: by the log's own word, or as every plan of ours has it."""
    manifest = subject.run.manifest
    if dotted == "model.padded_vocab_size" and facts(manifest.framework).pads_vocabulary is False:
        return subject.known("model.vocab_size")
    if manifest.ingested is None:
        planned = STATED[dotted].planned
        return (False, None) if planned is UNSTATED else (True, planned)
    setting = manifest.ingested.said.get(dotted.partition(".")[2])
    return setting is not None and setting.value is not None, setting.value if setting else None


def contract(target: Side, baseline: Side) -> tuple[Clause, ...]:
    """Every parameter of the policy on both sides, and what a log states besides."""
    governed = [_clause(key, target, baseline) for key in KEYS.values()]
    stated_only = (_clause(key, target, baseline) for key in STATED.values())
    sizes = [side.subjects[0].value("model.vocab_size") for side in (target, baseline)]
    usual = {**{name: key.usual for name, key in STATED.items()}, "model.padded_vocab_size": sizes}
    return (*governed, *(clause for clause in stated_only if _is_listed(clause, usual[clause.dotted])))


def _is_listed(clause: Clause, usual: Sequence[Any]) -> bool:
    """Known of both sides; or of one, and not what it mostly is."""
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
            values = tuple(own if len(own) > 1 else own[0] for own in seeds)  # as free as the weights' seeds
            status, effects = (status, effects) if values[0] == values[1] else (Agreement.DIFFERENT, {})
    group, _, name = dotted.partition(".")
    sources = (side.subjects[0].run.manifest.sources.get(dotted) for side in sides)
    return Clause(group, name, values[0], values[1], status, effects, unknown_of, *sources)


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
    if (reason := difference(side.subjects, [*blocking(*Metric), *ONE_PLATFORM])) is not None:
        where = {"key": side.name.upper(), "value": reason.keys[0]}
        expected, advice = "runs of one experiment on each side", "compare them one by one"
        raise InputError(f"{side.name}: {reason.message}", **where, expected=expected, next=advice)


def difference(subjects: Sequence[Subject], keys: Sequence[str]) -> Reason | None:
    """The first of these parameters in which two runs that should be alike are known to differ."""
    for dotted in keys:
        runs = [(name, value) for name, (known, value) in _by_run(subjects, dotted) if known]
        for name, value in runs[1:]:
            first, expected = runs[0]
            if not alike(value, expected):
                values = {"key": dotted, "runs": (first, name), "run_values": (expected, value)}
                return Reason(codes.RUNS_DIFFER, values, keys=(dotted,))
    return None


def partly_known(subjects: Sequence[Subject], keys: Sequence[str]) -> Reason | None:
    """The first of these parameters that is known of one run and not of another."""
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
        names = list(map(str, places))
    return [(name, known_value(subject, dotted)) for name, subject in zip(names, subjects, strict=True)]


def ruling(metric: Metric, clauses: Sequence[Clause], sides: Sequence[Side], mode: Mode) -> Ruling:
    return Ruling().worsened(*_by_contract(metric, clauses, sides, mode), *_by_findings(metric, sides, mode))


def differs(clause: Clause, sides: Sequence[Side], effect: reasons.Effect) -> Reason:
    values = {"key": clause.dotted, "target": clause.target, "baseline": clause.baseline}
    called = tuple(side.called for side in sides)
    return codes.because(codes.SETTING_DIFFERS, effect, "both", clause.dotted, **values, called=called)


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
    called: dict[SideName, str] = {"both": "either side", **{side.name: side.called for side in sides}}
    for (effect, name), keys in unknown.items():
        yield codes.because(codes.SETTINGS_UNKNOWN, effect, name, *keys, keys=tuple(keys), whose=called[name])


def _by_findings(metric: Metric, sides: Sequence[Side], mode: Mode) -> Iterator[Reason]:
    for side, verdict in ((each, verdict) for each in sides for verdict in each.verdicts):
        run = f"{side.called} ({verdict.run.resolve().name})"
        for finding in verdict.findings:
            governs = OWN_FIGURES.get(finding.check, {}).get(metric)
            unknown = finding.status == Status.UNKNOWN
            if governs is None or finding.status == Status.PASS or (unknown and finding.check not in UNKNOWN_QUALIFIES):
                continue
            effect = reasons.Effect.CAVEAT if unknown else effect_in(mode, governs)
            if unknown:
                code = codes.CHECK_UNKNOWN
            elif governs == Effect.BLOCKS:
                code = codes.FIGURES_CONTRADICT
            else:
                code = codes.CHECK_FAILED if effect == reasons.Effect.CAVEAT else codes.CHECK_FAILED_MATCHED
            yield codes.because(code, effect, side.name, run=run, check=finding.check, finding=finding.message)
