"""The contract: where two sides differ, and what each comparison is therefore worth."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from steelyard import reasons
from steelyard.comparison import codes
from steelyard.comparison.copies import check_once
from steelyard.comparison.policy import OWN_FIGURES, UNKNOWN_QUALIFIES
from steelyard.comparison.side import Side
from steelyard.errors import InputError
from steelyard.experiment.experiment import Mode
from steelyard.experiment.keys import KEYS, STATED, UNSTATED, Key, blocking
from steelyard.experiment.platform import FRAMEWORKS
from steelyard.experiment.policy import Effect, Effects, Metric
from steelyard.frameworks.logs.settings import SAME_SHARE
from steelyard.frameworks.registry import facts
from steelyard.reasons import Reason, SideName
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


_STATUS_OF = {
    reasons.Effect.BLOCKS: Comparability.NOT_COMPARABLE,
    reasons.Effect.UNKNOWN: Comparability.UNKNOWN,
    reasons.Effect.CAVEAT: Comparability.QUALIFIED,
}
"""The worst first."""
_WORST = tuple(_STATUS_OF.values())


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
    unknown_of: SideName = "both"
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

    reasons: tuple[Reason, ...] = ()
    """The worst first."""

    @property
    def status(self) -> Comparability:
        """By the worst of them."""
        return _status(self.reasons[0]) if self.reasons else Comparability.COMPARABLE

    @property
    def holds(self) -> bool:
        """Whether the comparison may be made."""
        return self.status in (Comparability.COMPARABLE, Comparability.QUALIFIED)

    @property
    def decisive(self) -> tuple[Reason, ...]:
        """Those that the status comes from."""
        return tuple(reason for reason in self.reasons if _status(reason) == self.status)

    def worsened(self, *more: Reason) -> "Ruling":
        """With more reasons; the worst decides."""
        return Ruling(tuple(sorted((*self.reasons, *more), key=lambda reason: _WORST.index(_status(reason)))))


def _status(reason: Reason) -> Comparability:
    assert reason.effect is not None, "a reason of a ruling has an effect"
    return _STATUS_OF[reason.effect]


def effect_in(mode: Mode, difference: Effect) -> reasons.Effect:
    """What a difference does in a mode: matched refuses what would qualify."""
    return reasons.Effect.BLOCKS if difference == Effect.BLOCKS or mode == "matched" else reasons.Effect.CAVEAT


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
        planned = STATED[dotted].planned
        return (False, None) if planned is UNSTATED else (True, planned)
    said = ingested.said.get(dotted.partition(".")[2])
    return said is not None and said.value is not None, said.value if said else None


def contract(target: Side, baseline: Side) -> tuple[Clause, ...]:
    """Every parameter of the policy on both sides, and what a log states beside them."""
    governed = [_clause(key, target, baseline) for key in KEYS.values()]
    stated_only = (_clause(key, target, baseline) for key in STATED.values())
    sizes = [side.subjects[0].value("model.vocab_size") for side in (target, baseline)]
    usual = {**{name: key.usual for name, key in STATED.items()}, "model.padded_vocab_size": sizes}
    return (*governed, *(clause for clause in stated_only if _is_said(clause, usual[clause.dotted])))


def _is_said(clause: Clause, usual: Sequence[Any]) -> bool:
    """Known of both sides; or of one, and not what it mostly is."""
    stated = [value for value in (clause.target, clause.baseline) if value is not None]
    return clause.status != Agreement.UNKNOWN or any(value not in usual for value in stated)


def _clause(key: Key, target: Side, baseline: Side) -> Clause:
    dotted, effects = key.name, key.policy.effects
    (known_target, ours), (known_baseline, theirs) = (_of_side(side, dotted) for side in (target, baseline))
    unknown_of: SideName = "both" if known_target == known_baseline else "baseline" if known_target else "target"
    if not (known_target and known_baseline):
        status = Agreement.UNKNOWN
    else:
        status = Agreement.EQUAL if alike(ours, theirs) else Agreement.DIFFERENT
    if status != Agreement.UNKNOWN and (isinstance(ours, WeightsSeed) or isinstance(theirs, WeightsSeed)):
        ours, theirs = (_seeds(side, dotted) for side in (target, baseline))
        status, effects = (status, effects) if ours == theirs else (Agreement.DIFFERENT, {})
    group, _, name = dotted.partition(".")
    sources = (_source(side, dotted) for side in (target, baseline))
    return Clause(group, name, ours, theirs, status, effects, unknown_of, *sources)


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
            f"{side.name}: {found.message}",
            key=side.name.upper(),
            value=found.keys[0],
            expected="runs of one experiment on each side",
            next="compare them one by one",
        )


def difference(subjects: Sequence[Subject], keys: Sequence[str]) -> Reason | None:
    """The first of these parameters in which two runs that should be alike are known to differ."""
    for dotted in keys:
        known = [(name, value) for name, (is_known, value) in _by_run(subjects, dotted) if is_known]
        for name, value in known[1:]:
            if not alike(value, known[0][1]):
                runs, values = (known[0][0], name), (known[0][1], value)
                return Reason(codes.RUNS_DIFFER, {"key": dotted, "runs": runs, "run_values": values}, keys=(dotted,))
    return None


def partly_known(subjects: Sequence[Subject], keys: Sequence[str]) -> Reason | None:
    """The first of these parameters that is known of one run and not of another."""
    for dotted in keys:
        names = {is_known: name for name, (is_known, _) in _by_run(subjects, dotted)}
        if len(names) == 2:
            values = {"key": dotted, "known": names[True], "unknown": names[False]}
            return Reason(codes.PARTLY_KNOWN, values, keys=(dotted,))
    return None


def _by_run(subjects: Sequence[Subject], dotted: str) -> list[tuple[str, tuple[bool, Any]]]:
    places = [one.run.directory for one in subjects]
    names = [place.name for place in places]
    if len(set(names)) < len(names):
        names = list(map(str, places))
    return [(name, known_value(one, dotted)) for name, one in zip(names, subjects, strict=True)]


def ruling(metric: Metric, clauses: Sequence[Clause], sides: Sequence[Side], mode: Mode) -> Ruling:
    """By the contract, and by what the sides' own verdicts say."""
    return Ruling().worsened(*_by_contract(metric, clauses, sides, mode), *_by_findings(metric, sides, mode))


def differs(clause: Clause, sides: Sequence[Side], effect: reasons.Effect) -> Reason:
    """A setting that both sides know, and have different values of."""
    values = {
        "key": clause.dotted,
        "target": clause.target,
        "baseline": clause.baseline,
        "called": tuple(side.called for side in sides),
    }
    return Reason(codes.SETTING_DIFFERS, values, effect, "both", (clause.dotted,))


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
    called: dict[SideName, str] = {"both": "either side"}
    called.update((side.name, side.called) for side in sides)
    for (effect, name), keys in unknown.items():
        values = {"keys": tuple(keys), "whose": called[name]}
        yield Reason(codes.SETTINGS_UNKNOWN, values, effect, name, tuple(keys))


def _by_findings(metric: Metric, sides: Sequence[Side], mode: Mode) -> Iterator[Reason]:
    for side in sides:
        for verdict in side.verdicts:
            run = f"{side.called} ({verdict.run.resolve().name})"
            for finding in verdict.findings:
                governs = OWN_FIGURES.get(finding.check, {}).get(metric)
                if governs is None or finding.status == Status.PASS:
                    continue
                values = {"run": run, "check": finding.check, "finding": finding.message}
                if finding.status == Status.UNKNOWN:
                    if finding.check in UNKNOWN_QUALIFIES:
                        yield Reason(codes.CHECK_UNKNOWN, values, reasons.Effect.CAVEAT, side.name)
                    continue
                effect = effect_in(mode, governs)
                code = codes.CHECK_FAILED if effect == reasons.Effect.CAVEAT else codes.CHECK_FAILED_MATCHED
                if governs == Effect.BLOCKS:
                    code = codes.FIGURES_CONTRADICT
                yield Reason(code, values, effect, side.name)
