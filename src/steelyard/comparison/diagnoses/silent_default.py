"""What nobody set, and each framework decides for itself: unset on both sides is not equal."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from steelyard.comparison.codes import shown
from steelyard.comparison.contract import Agreement, Clause, stated
from steelyard.comparison.diagnoses.defaults import TENTHS, default_of
from steelyard.comparison.diagnoses.diagnosis import Diagnosis
from steelyard.comparison.policy import Effect, Metric
from steelyard.comparison.side import Side
from steelyard.comparison.tiers import Pair

CODE = "silent_default"
_DEFAULT = "default"
_SCHEDULE = tuple(
    f"training.{key}" for key in ("learning_rate", "min_learning_rate", "warmup_steps", "schedule", "decay_steps")
)
_ALWAYS_SET = ("training.steps",)
"""What no run is left to a default of, though its log may not say it."""
WITHOUT_A_KEY: Mapping[str, Mapping[str, Any]] = {
    "training.hidden_dropout": {
        "megatron": 0.1,
        "megatron-deepspeed": 0.1,
        "primus": 0.0,
        "nemo": 0.0,
        "maxtext": 0.0,
        "torchtitan": 0.0,
    },
    "data.eod_mask_loss": {
        "megatron": "counted",
        "megatron-deepspeed": "counted",
        "nemo": "counted",
        "primus": "masked in its examples",
        "torchtitan": "counted",
    },
}
"""What shapes a curve and an experiment has no key for; a plan of ours sets it, a foreign run may not."""
_CALLED = {"training.hidden_dropout": "dropout", "data.eod_mask_loss": "the loss of document ends"}
_BY_ARCHITECTURE: Mapping[str, Mapping[str, Any]] = {
    "the position encoding": {
        "megatron": "learned",
        "primus": "rotary",
        "nemo": "rotary",
        "maxtext": "rotary",
        "torchtitan": "rotary",
    },
}
"""The same, where the architecture that would say it is not known."""


def diagnose(pair: Pair) -> Iterator[Diagnosis]:
    unset, one_sided = [], []
    for clause in pair.clauses:
        if clause.governs.get(Metric.CONVERGENCE) != Effect.BLOCKS:
            continue
        if clause.dotted in _SCHEDULE and pair.told_rates:
            continue  # the rates that both recorded say more than any default
        if words := differs_by_default(clause, pair) or _unset(clause, pair):
            unset.append(words)
        elif words := _set_by_one(clause, pair):
            one_sided.append(words)
    unset += unstated_differences(pair)
    told = []
    if unset:
        told.append(f"what nobody set differs, where it was left to the framework: {'; '.join(unset)}")
    if one_sided:
        told.append(f"what one side set differs from what the other's framework does: {'; '.join(one_sided)}")
    if told:
        yield Diagnosis(
            CODE,
            "both",
            "; ".join(told),
            ("each framework's own defaults, where neither log nor config says more",),
            "set them in both configurations, or give the logs' own arguments to `ingest`",
        )


def differs_by_default(clause: Clause, pair: Pair) -> str | None:
    """A difference that comes of a side's default."""
    if clause.status != Agreement.DIFFERENT:
        return None
    sources = [_source(side, clause.dotted) for side in (pair.target, pair.baseline)]
    if not any(source.startswith(_DEFAULT) for source in sources) or pair.same("platform.framework"):
        return None  # one framework has one default: who differs from it said so
    return _of_both(clause, pair, (clause.target, clause.baseline), sources)


def unstated_differences(pair: Pair) -> list[str]:
    """What differs by default and has no key of an experiment, where a foreign log does not state it.

    A plan of ours states it, and what both sides state is for the contract.
    """
    subjects = [side.subjects[0] for side in (pair.target, pair.baseline)]
    known = pair.same("model.architecture") is not None
    told = []
    for key, by_framework in {**WITHOUT_A_KEY, **({} if known else _BY_ARCHITECTURE)}.items():
        said = [stated(subject, key) for subject in subjects]
        if all(is_stated for is_stated, _ in said):
            continue
        names = [subject.run.manifest.framework for subject in subjects]
        found = [
            _worded(value) if is_stated else by_framework.get(name)
            for name, (is_stated, value) in zip(names, said, strict=True)
        ]
        if None not in found and found[0] != found[1]:
            values = " and ".join(f"{value} in {name}" for value, name in zip(found, names, strict=True))
            told.append(f"{_CALLED.get(key, key)} is {values}")
    return told


def _worded(stated: Any) -> Any:
    return ("masked" if stated else "counted") if isinstance(stated, bool) else stated


def _unset(clause: Clause, pair: Pair) -> str | None:
    """A key that is not known of either side, where the frameworks' defaults are, and differ."""
    if clause.status != Agreement.UNKNOWN or clause.unknown_of != "both":
        return None
    names = [_framework(side) for side in (pair.target, pair.baseline)]
    (know_ours, ours), (know_theirs, theirs) = (default_of(name, clause.dotted) for name in names)
    if not (know_ours and know_theirs) or ours == theirs:
        return None
    return f"{clause.dotted} is {shown(ours)} in {names[0]} and {shown(theirs)} in {names[1]}"


def _set_by_one(clause: Clause, pair: Pair) -> str | None:
    """A key that is known of one side only, and is not what the other's framework does by itself."""
    if clause.status != Agreement.UNKNOWN or clause.unknown_of == "both" or clause.dotted in _ALWAYS_SET:
        return None
    silent = pair.target if clause.unknown_of == "target" else pair.baseline
    says = pair.baseline if silent is pair.target else pair.target
    value = clause.baseline if silent is pair.target else clause.target
    known, default = default_of(_framework(silent), clause.dotted)
    if not known or value == default or _is_a_tenth(value, default, (silent, says)):
        return None
    sources = {silent.name: f"default of {_framework(silent)}", says.name: _source(says, clause.dotted)}
    values = {silent.name: default, says.name: value}
    names = (pair.target.name, pair.baseline.name)
    return _of_both(clause, pair, [values[name] for name in names], [sources[name] for name in names])


def _of_both(clause: Clause, pair: Pair, values: Any, sources: list[str]) -> str:
    sides = (pair.target, pair.baseline)
    told = (
        f"{shown(value)} on the {side.name} ({source or 'as it says'})"
        for value, side, source in zip(values, sides, sources, strict=True)
    )
    return f"{clause.dotted} is {' and '.join(told)}"


def _is_a_tenth(value: Any, default: Any, sides: tuple[Side, Side]) -> bool:
    """Whether a value is what a default that follows from another key comes to."""
    of = TENTHS.get(default) if isinstance(default, str) else None
    if of is None or not isinstance(value, int | float):
        return False
    whole = next((found for side in sides if isinstance(found := side.subjects[0].value(of), int | float)), None)
    return whole is not None and math.isclose(value, whole / 10)


def _framework(side: Side) -> str:
    return side.subjects[0].run.manifest.framework


def _source(side: Side, dotted: str) -> str:
    return side.subjects[0].run.manifest.sources.get(dotted, "")
