"""What nobody set, and each framework decides for itself: unset on both sides is not equal."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from steelyard.comparison.codes import shown
from steelyard.comparison.contract import Agreement, Clause, stated
from steelyard.comparison.diagnoses import Cause, Diagnosis
from steelyard.comparison.side import Side
from steelyard.comparison.tiers import Pair
from steelyard.experiment.policy import Effect, Metric
from steelyard.experiment.sources import Origin, Source
from steelyard.frameworks.facts import POSITION_ENCODING
from steelyard.frameworks.registry import facts

_SCHEDULE = tuple(
    f"training.{key}" for key in ("learning_rate", "min_learning_rate", "warmup_steps", "schedule", "decay_steps")
)
_ALWAYS_SET = ("training.steps",)
"""What no run is left to a default of, though its log may not say it."""
_CALLED = {"training.hidden_dropout": "dropout", "data.eod_mask_loss": "the loss of document ends"}
TENTHS = {"a tenth of the peak": "training.learning_rate", "a tenth of the steps": "training.steps"}
"""Defaults that follow from another key."""


@dataclass(frozen=True, slots=True)
class LeftOpen:
    """What neither side states and the two frameworks decide in different ways; target first."""

    key: str
    values: tuple[Any, Any]
    frameworks: tuple[str, str]

    @property
    def words(self) -> str:
        sides = (f"{shown(value)} in {name}" for value, name in zip(self.values, self.frameworks, strict=True))
        return f"{_CALLED.get(self.key, self.key)} is {' and '.join(sides)}"


@dataclass(frozen=True, slots=True)
class DefaultOfOne:
    """A value of one side, and another of a framework's default; target first."""

    key: str
    values: tuple[Any, Any]
    sources: tuple[Source | None, Source | None]

    @property
    def words(self) -> str:
        sides = (
            f"{shown(value)} on the {name} ({source or 'as it says'})"
            for name, value, source in zip(("target", "baseline"), self.values, self.sources, strict=True)
        )
        return f"{self.key} is {' and '.join(sides)}"


def _sentence(unset: Sequence[LeftOpen | DefaultOfOne], one_sided: Sequence[DefaultOfOne]) -> str:
    kinds = (
        ("what nobody set differs, where it was left to the framework", unset),
        ("what one side set differs from what the other's framework does", one_sided),
    )
    parts = (f"{kind}: {'; '.join(each.words for each in differences)}" for kind, differences in kinds if differences)
    return "; ".join(parts)


CODE = Cause(
    "silent_default",
    _sentence,
    evidence=lambda **_: ("each framework's own defaults, where neither log nor config says more",),
    confirm="set them in both configurations, or give the logs' own arguments to `ingest`",
)
"""The frameworks' own defaults differ in what a side did not set."""


def diagnose(pair: Pair) -> Iterator[Diagnosis]:
    unset: list[LeftOpen | DefaultOfOne] = []
    one_sided: list[DefaultOfOne] = []
    subjects = [subject for side in pair.sides for subject in side.subjects]
    rates_recorded = all(subject.steps.learning_rate.finite.any() for subject in subjects)
    for clause in pair.clauses:
        if clause.governs.get(Metric.CONVERGENCE) != Effect.BLOCKS:
            continue
        if clause.dotted in _SCHEDULE and rates_recorded:
            continue  # the rates that both recorded say more than any default
        if difference := differs_by_default(clause, pair) or _unset(clause, pair):
            unset.append(difference)
        elif default := _set_by_one(clause, pair):
            one_sided.append(default)
    unset += unstated_differences(pair)
    if unset or one_sided:
        keys = tuple(difference.key for difference in (*unset, *one_sided))
        yield Diagnosis(CODE, "both", {"unset": unset, "one_sided": one_sided}, keys)


def differs_by_default(clause: Clause, pair: Pair) -> DefaultOfOne | None:
    if clause.status != Agreement.DIFFERENT or pair.same("platform.framework"):
        return None  # one framework has one default: who differs from it said so
    target, baseline = (side.subjects[0].source(clause.dotted) for side in pair.sides)
    defaults = any(source is not None and source.is_default for source in (target, baseline))
    return DefaultOfOne(clause.dotted, (clause.target, clause.baseline), (target, baseline)) if defaults else None


def unstated_differences(pair: Pair) -> list[LeftOpen]:
    """What differs by default and has no key of an experiment, unless both state it, as plans of ours do."""
    names = _framework(pair.target), _framework(pair.baseline)
    known = pair.same("model.architecture") is not None
    differences = []
    for key in (*_CALLED, *(() if known else (POSITION_ENCODING,))):
        settings = [stated(side.subjects[0], key) for side in pair.sides]
        if all(is_stated for is_stated, _ in settings):
            continue
        target, baseline = (
            _worded(value) if is_stated else facts(name).keyless_defaults.get(key)
            for name, (is_stated, value) in zip(names, settings, strict=True)
        )
        if None not in (target, baseline) and target != baseline:
            differences.append(LeftOpen(key, (target, baseline), names))
    return differences


def _worded(stated: Any) -> Any:
    return ("masked" if stated else "counted") if isinstance(stated, bool) else stated


def _unset(clause: Clause, pair: Pair) -> LeftOpen | None:
    """A key that is not known of either side, where the frameworks' defaults are, and differ."""
    if clause.status != Agreement.UNKNOWN or clause.unknown_of != "both":
        return None
    names = _framework(pair.target), _framework(pair.baseline)
    (target_known, target), (baseline_known, baseline) = (facts(name).default(clause.dotted) for name in names)
    differ = target_known and baseline_known and target != baseline
    return LeftOpen(clause.dotted, (target, baseline), names) if differ else None


def _set_by_one(clause: Clause, pair: Pair) -> DefaultOfOne | None:
    """A key that is known of one side only, and is not what the other's framework does by itself."""
    if clause.status != Agreement.UNKNOWN or clause.unknown_of == "both" or clause.dotted in _ALWAYS_SET:
        return None
    of_target = clause.unknown_of == "target"
    (silent, says), value = (pair.sides, clause.baseline) if of_target else (pair.sides[::-1], clause.target)
    known, default = facts(_framework(silent)).default(clause.dotted)
    if not known or value == default or _is_a_tenth(value, default, (silent, says)):
        return None
    by_framework, source = Source(Origin.FRAMEWORK, _framework(silent)), says.subjects[0].source(clause.dotted)
    if of_target:
        return DefaultOfOne(clause.dotted, (default, value), (by_framework, source))
    return DefaultOfOne(clause.dotted, (value, default), (source, by_framework))


def _is_a_tenth(value: Any, default: Any, sides: tuple[Side, Side]) -> bool:
    """Whether a value is what a default that follows from another key comes to."""
    of = TENTHS.get(default) if isinstance(default, str) else None
    if of is None or not isinstance(value, int | float):
        return False
    wholes = (side.subjects[0].value(of) for side in sides)
    whole = next((whole for whole in wholes if isinstance(whole, int | float)), None)
    return whole is not None and math.isclose(value, whole / 10)


def _framework(side: Side) -> str:
    return side.subjects[0].run.manifest.framework
