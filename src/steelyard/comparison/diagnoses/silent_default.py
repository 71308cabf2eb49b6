"""Settings left to the frameworks, whose defaults differ: unset on both sides is not equal."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from steelyard.comparison.codes import shown
from steelyard.comparison.contract import Agreement, Clause, stated
from steelyard.comparison.diagnoses import Cause, Diagnosis
from steelyard.comparison.phrases import listed, plural
from steelyard.comparison.side import Side
from steelyard.comparison.tiers import Pair
from steelyard.experiment.policy import Effect, Metric
from steelyard.experiment.sources import Origin, Source
from steelyard.frameworks.facts import PLANNED, POSITION_ENCODING, ShareOf
from steelyard.frameworks.registry import facts
from steelyard.verdict import Subject

_SCHEDULE = tuple(
    f"training.{key}" for key in ("learning_rate", "min_learning_rate", "warmup_steps", "schedule", "decay_steps")
)
_MOST_NAMED = 3
"""Settings that a sentence names."""
_ALWAYS_SET = ("training.steps",)
"""Settings that every run sets, even if its log does not contain them."""
_ENCODINGS = {"llama": "rotary", "gpt": "learned"}
"""The position encoding of each architecture, in the words of the frameworks' defaults."""
_CALLED = {"training.hidden_dropout": "dropout", "data.eod_mask_loss": "loss at document ends"}


@dataclass(frozen=True, slots=True)
class LeftOpen:
    """A setting that neither side states, with two different framework defaults; target first."""

    key: str
    values: tuple[Any, Any]
    frameworks: tuple[str, str]

    @property
    def words(self) -> str:
        sides = (f"{shown(value)} in {name}" for value, name in zip(self.values, self.frameworks, strict=True))
        return f"{_CALLED.get(self.key, self.key)}: {', '.join(sides)}"


@dataclass(frozen=True, slots=True)
class DefaultOfOne:
    """A value of one side that differs from the framework default of the other; target first."""

    key: str
    values: tuple[Any, Any]
    sources: tuple[Source | None, Source | None]

    def words_for(self, called: tuple[str, str]) -> str:
        sides = (
            f"{shown(value)} on {name} ({source or 'recorded'})"
            for name, value, source in zip(called, self.values, self.sources, strict=True)
        )
        return f"{self.key}: {', '.join(sides)}"


def _sentence(unset: Sequence[LeftOpen | DefaultOfOne], one_sided: Sequence[DefaultOfOne], **_: Any) -> str:
    kinds = (
        ("framework defaults differ in", unset),
        ("one side differs from the framework default of the other in", one_sided),
    )
    return "; ".join(f"{kind} {_settings(differences)}" for kind, differences in kinds if differences)


def _settings(differences: Sequence[LeftOpen | DefaultOfOne]) -> str:
    """`training.weight_decay, dropout and 3 more settings`."""
    names = [_CALLED.get(difference.key, difference.key) for difference in differences]
    if len(names) <= _MOST_NAMED:
        return listed(names)
    return f"{', '.join(names[:_MOST_NAMED])} and {plural(len(names) - _MOST_NAMED, 'more setting')}"


def _evidence(
    called: tuple[str, str], unset: Sequence[LeftOpen | DefaultOfOne], one_sided: Sequence[DefaultOfOne]
) -> Iterator[str]:
    for difference in (*unset, *one_sided):
        yield difference.words if isinstance(difference, LeftOpen) else difference.words_for(called)
    yield "framework defaults apply where neither log nor config has the setting"


CODE = Cause(
    "silent_default",
    _sentence,
    evidence=_evidence,
    confirm="set them in both configs, or ingest the logs with --config FILE or --set group.key=value",
)
"""The frameworks have different defaults for settings that a side does not state."""


def diagnose(pair: Pair) -> Iterator[Diagnosis]:
    unset: list[LeftOpen | DefaultOfOne] = []
    one_sided: list[DefaultOfOne] = []
    subjects = [subject for side in pair.sides for subject in side.subjects]
    rates_recorded = all(subject.steps.learning_rate.finite.any() for subject in subjects)
    for clause in pair.clauses:
        if clause.governs.get(Metric.CONVERGENCE) != Effect.BLOCKS:
            continue
        if clause.dotted in _SCHEDULE and rates_recorded:
            continue  # recorded rates are better evidence than defaults
        if difference := differs_by_default(clause, pair) or _unset(clause, pair):
            unset.append(difference)
        elif default := _set_by_one(clause, pair):
            one_sided.append(default)
    unset += unstated_differences(pair)
    if unset or one_sided:
        keys = tuple(difference.key for difference in (*unset, *one_sided))
        yield Diagnosis(CODE, "both", {"called": pair.called, "unset": unset, "one_sided": one_sided}, keys)


def differs_by_default(clause: Clause, pair: Pair) -> DefaultOfOne | None:
    if clause.status != Agreement.DIFFERENT or pair.same("platform.framework"):
        return None  # one framework has one default: a different value was set
    target, baseline = (side.subjects[0].source(clause.dotted) for side in pair.sides)
    defaults = any(source is not None and source.is_default for source in (target, baseline))
    if not defaults:
        return None
    return DefaultOfOne(clause.dotted, (clause.target, clause.baseline), (target, baseline))


def unstated_differences(pair: Pair) -> list[LeftOpen]:
    """Different defaults in settings without an experiment key, unless both sides state them."""
    names = _framework(pair.target), _framework(pair.baseline)
    known = pair.same("model.architecture") is not None
    differences = []
    for key in (*_CALLED, *(() if known else (POSITION_ENCODING,))):
        settings = [_stated(side.subjects[0], key) for side in pair.sides]
        if all(is_stated for is_stated, _ in settings):
            continue
        target, baseline = (
            _worded(value) if is_stated else _unstated(side, key)
            for side, (is_stated, value) in zip(pair.sides, settings, strict=True)
        )
        if None not in (target, baseline) and target != baseline:
            differences.append(LeftOpen(key, (target, baseline), names))
    return differences


def _stated(subject: Subject, key: str) -> tuple[bool, Any]:
    """Whether a run states the setting, and its value; an architecture implies its position encoding."""
    if key != POSITION_ENCODING:
        return stated(subject, key)
    encoding = _ENCODINGS.get(subject.value("model.architecture"))
    return encoding is not None, encoding


def _unstated(side: Side, key: str) -> Any:
    """What a side uses without stating it: what the plan sets in our own runs, the framework default in others."""
    planned = side.subjects[0].run.manifest.ingested is None and key in PLANNED
    return PLANNED[key] if planned else facts(_framework(side)).keyless_defaults.get(key)


def _worded(stated: Any) -> Any:
    return ("masked" if stated else "counted") if isinstance(stated, bool) else stated


def _unset(clause: Clause, pair: Pair) -> LeftOpen | None:
    """A setting unknown on both sides, if the framework defaults are known and differ."""
    if clause.status != Agreement.UNKNOWN or clause.unknown_of != "both":
        return None
    names = _framework(pair.target), _framework(pair.baseline)
    (target_known, target), (baseline_known, baseline) = (facts(name).default(clause.dotted) for name in names)
    differ = target_known and baseline_known and target != baseline
    return LeftOpen(clause.dotted, (target, baseline), names) if differ else None


def _set_by_one(clause: Clause, pair: Pair) -> DefaultOfOne | None:
    """A setting known on one side only, if it differs from the framework default of the other."""
    if clause.status != Agreement.UNKNOWN or clause.unknown_of == "both" or clause.dotted in _ALWAYS_SET:
        return None
    of_target = clause.unknown_of == "target"
    (silent, stating), value = (pair.sides, clause.baseline) if of_target else (pair.sides[::-1], clause.target)
    known, default = facts(_framework(silent)).default(clause.dotted)
    if not known or value == default or _follows(value, default, (silent, stating)):
        return None
    by_framework, source = Source(Origin.FRAMEWORK, _framework(silent)), stating.subjects[0].source(clause.dotted)
    if of_target:
        return DefaultOfOne(clause.dotted, (default, value), (by_framework, source))
    return DefaultOfOne(clause.dotted, (value, default), (source, by_framework))


def _follows(value: Any, default: Any, sides: tuple[Side, Side]) -> bool:
    """Whether a value equals a default that depends on another key."""
    if not isinstance(default, ShareOf) or not isinstance(value, int | float):
        return False
    amounts = (default.of(side.subjects[0].value(default.key)) for side in sides)
    amount = next((amount for amount in amounts if amount is not None), None)
    return amount is not None and math.isclose(value, amount)


def _framework(side: Side) -> str:
    return side.subjects[0].run.manifest.framework
