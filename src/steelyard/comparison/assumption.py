"""Settings that the user supplies for one comparison: `--assume SIDE:KEY=VALUE`."""

import json
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

from pydantic import TypeAdapter, ValidationError

from steelyard.comparison import codes
from steelyard.comparison.acceptance import EVERY_KEY, nearest_names
from steelyard.comparison.again import import_again
from steelyard.comparison.contract import alike, known_value
from steelyard.comparison.side import Side
from steelyard.configs.gpus import StatedGpus, check_ingested_gpu
from steelyard.errors import InputError
from steelyard.experiment.experiment import GROUPS
from steelyard.experiment.keys import KEYS, STATED, fields_of
from steelyard.experiment.parsing import parse_scalar
from steelyard.experiment.partial import PartialExperiment
from steelyard.experiment.policy import Metric
from steelyard.experiment.problems import plain, shown, spelt
from steelyard.experiment.resolve import leaves, parse_settings, partial_settings
from steelyard.experiment.sources import ASSUMED, DERIVED
from steelyard.hardware.catalog import same_gpu
from steelyard.ingestion.derived import following
from steelyard.reasons import Effect, Reason, SideName
from steelyard.records.manifest import RunManifest
from steelyard.verdict import Subject
from steelyard.verdict.gpu import named

OPTION = "--assume"
GPU, WORLD, NODES = "platform.gpu", "platform.world_size", "platform.nodes"
PLATFORM = (GPU, WORLD, NODES)
COMPUTED: Mapping[str, tuple[str, ...]] = {
    "training.tokens_per_step": ("training.global_batch_size", "training.sequence_length")
}
"""Keys that are computed from settings: assume those."""
_SETTINGS = tuple(f"{group}.{key}" for group in GROUPS for key in fields_of(group))
ASSUMABLE = (*_SETTINGS, *STATED, *PLATFORM)
_KINDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
_EVERY: tuple[SideName, ...] = ("target", "baseline")


@dataclass(frozen=True, slots=True)
class Assumption:
    side: str
    """target, baseline or both; before the sides are known, also the name of one."""
    key: str
    value: Any
    keys: tuple[str, ...] = ()
    """The settings that it supplies; empty if all were recorded already."""

    @property
    def typed(self) -> str:
        """As the command line takes it."""
        return f"{self.side}:{self.key}={_scalar(self.value)}"

    def words(self, called: Mapping[str, str]) -> str:
        return f"{self.key} = {spelt(self.value)} for {called[self.side]}"

    def document(self) -> dict[str, Any]:
        return {"side": self.side, "key": self.key, "value": self.value, "keys": list(self.keys)}


def _scalar(value: Any) -> str:
    """A value as YAML reads it back: text that looks like a number is quoted."""
    text = spelt(value)
    return json.dumps(value) if isinstance(value, str) and parse_scalar(text) != value else text


def parse(assume: str | Sequence[str] | Mapping[str, Any]) -> tuple[Assumption, ...]:
    """Read `SIDE:KEY=VALUE`, or a mapping of `SIDE:KEY` to values; each key is checked as `ingest --set` does."""
    if isinstance(assume, Mapping):
        return tuple(_read(head, spelt(value), [value]) for head, value in assume.items())
    texts = [assume] if isinstance(assume, str) else assume
    return tuple(_read(head, text) for head, _, text in (text.partition("=") for text in texts))


def _read(head: str, text: str, given: Sequence[Any] = ()) -> Assumption:
    """`given` is the value if it is typed already."""
    side, _, key = head.rpartition(":")
    if not side or not text:
        complaint = f"{OPTION} {shown(head)} is not SIDE:KEY=VALUE"
        name = key if key in ASSUMABLE else "training.sequence_length"
        fix = f"{OPTION} {side or 'target'}:{name}={text or 'VALUE'}"
        raise InputError(complaint, key=OPTION, value=plain(head), expected="SIDE:KEY=VALUE", next=fix)
    _check_key(side, key, text)
    if key in PLATFORM:
        return Assumption(side, key, _typed(side, key, given[0] if given else _scalar_of(side, key, text)))
    settings = parse_settings({key: given[0]} if given else [f"{key}={text}"])  # refuses secrets
    return Assumption(side, key, _typed(side, key, dict(settings)[key]))


def _scalar_of(side: str, key: str, text: str) -> Any:
    try:
        return parse_scalar(text)
    except ValueError:
        raise _wrong(side, key, text, "a YAML scalar") from None


def _check_key(side: str, key: str, text: str) -> None:
    if key in ASSUMABLE:
        return
    if key in COMPUTED:
        others = COMPUTED[key]
        complaint = f"{OPTION} {side}:{key}: it is computed from {' and '.join(others)}"
        fix = " ".join(f"{OPTION} {side}:{other}=VALUE" for other in others)
        raise InputError(complaint, key=key, value=plain(text), expected=" and ".join(others), next=fix)
    if key in KEYS:
        complaint, fix = f"{OPTION} {side}:{key}: it is measured and cannot be assumed", f"--accept {key}"
        raise InputError(complaint, key=key, value=plain(text), expected="a setting", next=fix)
    near = nearest_names(key, ASSUMABLE)
    fix = f"{OPTION} {side}:{near[0]}={text}" if near else EVERY_KEY
    complaint, expected = f"{OPTION} {side}:{key}: not a key", "a key of the comparison rules"
    raise InputError(complaint, key=key, value=plain(text), expected=expected, next=fix, near=near)


def _typed(side: str, key: str, value: Any) -> Any:
    """The value in the type of its key."""
    if key == GPU:
        check_ingested_gpu(str(value), StatedGpus())
        return str(value)
    if key not in STATED and key not in PLATFORM:
        partial_settings([(key, value)], f"{OPTION} {side}:{key}")
        return value
    kind = {**STATED, **KEYS}[key].type
    try:
        typed = TypeAdapter(kind).validate_python(spelt(value) if kind is str else value, strict=kind is not float)
    except ValidationError:
        raise _wrong(side, key, value, _KINDS[kind]) from None
    if key in PLATFORM and typed < 1:
        raise _wrong(side, key, value, "1 or more")
    return typed


def _wrong(side: str, key: str, value: Any, expected: str) -> InputError:
    complaint, fix = f"{OPTION} {side}:{key}={shown(value)}", f"steelyard explain {key}"
    return InputError(f"{complaint}: wrong value", key=key, value=plain(value), expected=expected, next=fix)


def of_sides(assumptions: Sequence[Assumption], called: tuple[str, str]) -> tuple[Assumption, ...]:
    """With target, baseline or both instead of the names of sides."""
    names = {"target": "target", "baseline": "baseline", "both": "both"}
    names = dict(zip(called, _EVERY, strict=True)) | names
    for each in assumptions:
        if each.side not in names:
            complaint = f"{OPTION} {each.typed}: {each.side!r} is not a side"
            expected = f"target ({called[0]}), baseline ({called[1]}) or both"
            fix = f"{OPTION} {replace(each, side='target').typed}"
            raise InputError(complaint, key=OPTION, value=each.side, expected=expected, next=fix)
    return tuple(replace(each, side=names[each.side]) for each in assumptions)


def supply(
    side: SideName, subjects: Sequence[Subject], assumptions: Sequence[Assumption]
) -> tuple[tuple[Subject, ...], tuple[Assumption, ...]]:
    """The runs of a side with what is assumed of it, and each assumption with the settings that it supplied."""
    supplied: list[tuple[str, ...]] = []
    runs = list(subjects)
    for each in assumptions:
        keys: dict[str, None] = {}
        if each.side in (side, "both"):
            for at, subject in enumerate(runs):
                runs[at], new = _supplied(subject, each)
                keys |= dict.fromkeys(new)
        supplied.append(tuple(dict.fromkeys((*each.keys, *keys))))
    return tuple(runs), tuple(replace(each, keys=new) for each, new in zip(assumptions, supplied, strict=True))


def _supplied(subject: Subject, assumption: Assumption) -> tuple[Subject, list[str]]:
    values = {assumption.key: assumption.value}
    if assumption.key in _SETTINGS:
        values, _ = partial_settings([(assumption.key, assumption.value)])
    new = {key: value for key, value in values.items() if not _is_recorded(subject, key, value, assumption)}
    if not new:
        return subject, []
    manifest = subject.run.manifest
    changed = _on_platform(manifest, new) if assumption.key in PLATFORM else _in_experiment(manifest, new)
    return replace(subject, run=replace(subject.run, manifest=changed)), list(new)


def _is_recorded(subject: Subject, key: str, value: Any, assumption: Assumption) -> bool:
    """Whether the run records this value; an error if it records another. Defaults of a framework are not recorded."""
    known, recorded = subject.known(key) if key in _SETTINGS else known_value(subject, key)
    source = subject.source(key)
    if not known or (subject.foreign and source is not None and source.is_default):
        return False
    if alike(recorded, value) or (key == GPU and same_gpu(str(recorded), str(value))):
        return True
    name = subject.run.directory.name
    where = f" ({source})" if source else ""
    again = f"--accept {key}=REASON if it does not matter"
    if subject.foreign and key in _SETTINGS:
        again += f"; to correct the run: {import_again(subject.run.manifest)} --set {key}={spelt(value)} --override"
    complaint = f"{OPTION} {assumption.typed}: {name} records {key} = {shown(recorded)}{where}"
    raise InputError(complaint, key=key, value=plain(value), expected=spelt(recorded), next=again)


def _in_experiment(manifest: RunManifest, new: Mapping[str, Any]) -> RunManifest:
    content = deepcopy(manifest.experiment.root)
    sources = {**manifest.sources, **dict.fromkeys(new, str(ASSUMED))}
    for key, value in new.items():
        _put(content, key, value)
    known = dict(leaves({group: content.get(group) or {} for group in GROUPS}))
    all_products = [("precision.fp8", None)] if "precision.dtype" in new else []  # as `ingest --set` does
    for key, value in (*all_products, *following(known, manifest.platform.world_size)):
        if key not in known:
            _put(content, key, value)
            sources[key] = str(DERIVED)
    return manifest.model_copy(update={"experiment": PartialExperiment(content), "sources": sources})


def _put(content: dict[str, Any], key: str, value: Any) -> None:
    *parents, last = key.split(".")
    for parent in parents:
        content = content.setdefault(parent, {})
    content[last] = value


def _on_platform(manifest: RunManifest, new: Mapping[str, Any]) -> RunManifest:
    if GPU in new:
        changed = named(manifest, new[GPU], StatedGpus())
        return changed.model_copy(update={"platform": changed.platform.model_copy(update={"gpu_by": str(ASSUMED)})})
    before = manifest.platform
    world, nodes = new.get(WORLD, before.world_size), new.get(NODES, before.nodes)
    per_node = before.gpus_per_node
    if per_node is None and world and nodes and world % nodes == 0:
        per_node = world // nodes
    update = {"world_size": world, "nodes": nodes, "gpus_per_node": per_node}
    return manifest.model_copy(update={"platform": before.model_copy(update=update)})


def caveats(metric: Metric, sides: Sequence[Side], assumptions: Sequence[Assumption]) -> Iterator[Reason]:
    """What is assumed about each side, where it matters; without an effect of its own it may matter everywhere."""
    registry = {**KEYS, **STATED}
    for side in sides:
        keys: dict[str, None] = {}
        settings: list[str] = []
        for each in assumptions:
            effects = [registry[key].policy.effects for key in each.keys if key in registry]
            if each.keys and each.side in (side.name, "both") and any(not own or metric in own for own in effects):
                keys |= dict.fromkeys(each.keys)
                settings.append(f"{each.key} = {spelt(each.value)}")
        if settings:
            values = {"settings": settings, "side": side.called}
            yield codes.because(codes.SETTINGS_ASSUMED, Effect.CAVEAT, side.name, *keys, **values)
