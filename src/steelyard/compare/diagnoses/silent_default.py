"""What nobody set, and each framework decides for itself: unset on both sides is not equal."""

from collections.abc import Iterator, Mapping
from typing import Any

from steelyard.compare.contract import EITHER, Agreement, Clause, shown
from steelyard.compare.diagnoses.diagnosis import Diagnosis
from steelyard.compare.policy import Effect, Metric
from steelyard.compare.side import Side
from steelyard.compare.tiers import Pair
from steelyard.frameworks import MODULES, framework

CODE = "silent_default"
_DEFAULT = "default"
WITHOUT_A_KEY: Mapping[str, Mapping[str, Any]] = {
    "dropout": {
        "megatron": 0.1,
        "megatron-deepspeed": 0.1,
        "primus": 0.0,
        "nemo": 0.0,
        "maxtext": 0.0,
        "torchtitan": 0.0,
    },
    "the loss of document ends": {
        "megatron": "counted",
        "megatron-deepspeed": "counted",
        "nemo": "counted",
        "primus": "masked in its examples",
        "torchtitan": "counted",
    },
}
"""What shapes a curve and an experiment has no key for; a plan of ours sets it, a foreign run may not."""


def diagnose(pair: Pair) -> Iterator[Diagnosis]:
    told = []
    for clause in pair.clauses:
        if clause.governs.get(Metric.CONVERGENCE) != Effect.BLOCKS:
            continue
        words = differs_by_default(clause, pair) or _unstated(clause, pair)
        if words:
            told.append(words)
    told += _without_a_key(pair)
    if told:
        yield Diagnosis(
            CODE,
            "both",
            f"what nobody set differs, where it was left to the framework: {'; '.join(told)}",
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
    values = (
        f"{shown(value)} on the {side.name} ({source})"
        for value, side, source in zip(
            (clause.target, clause.baseline), (pair.target, pair.baseline), sources, strict=True
        )
    )
    return f"{clause.dotted} is {' and '.join(values)}"


def _unstated(clause: Clause, pair: Pair) -> str | None:
    """A key that is not known of either side, where the frameworks' defaults are, and differ."""
    if clause.status != Agreement.UNKNOWN or clause.unknown_of != EITHER:
        return None
    names = [side.subjects[0].run.manifest.framework for side in (pair.target, pair.baseline)]
    defaults = [_default(name, clause.dotted) for name in names]
    if None in defaults or defaults[0] == defaults[1]:
        return None
    told = " and ".join(f"{shown(value)} in {name}" for value, name in zip(defaults, names, strict=True))
    return f"{clause.dotted} is {told}"


def _without_a_key(pair: Pair) -> Iterator[str]:
    runs = [side.subjects[0].run.manifest for side in (pair.target, pair.baseline)]
    if any(manifest.ingested is None for manifest in runs):
        return
    for what, by_framework in WITHOUT_A_KEY.items():
        found = [by_framework.get(manifest.framework) for manifest in runs]
        if None not in found and found[0] != found[1]:
            told = " and ".join(f"{value} in {one.framework}" for value, one in zip(found, runs, strict=True))
            yield f"{what} is {told}"


def _source(side: Side, dotted: str) -> str:
    return side.subjects[0].run.manifest.sources.get(dotted, "")


def _default(name: str, dotted: str) -> Any:
    return framework(name).silent_defaults.get(dotted) if name in MODULES else None
