"""From a file, a platform and --set to one experiment, each value with its source."""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from steelyard.errors import InputError
from steelyard.experiment.complaints import fields_at, problems_of, unknown_key, wrong_value
from steelyard.experiment.experiment import GROUPS, Experiment
from steelyard.experiment.parsing import parse_scalar
from steelyard.experiment.platform import Platform
from steelyard.experiment.presets import PRESETS
from steelyard.experiment.problems import (
    MISSING_KEY,
    SECRET_FIX,
    SETTINGS,
    UNKNOWN_NAME,
    InvalidExperimentError,
    Problem,
    plain,
    raise_errors,
    shown,
)
from steelyard.experiment.reading import Reading
from steelyard.experiment.sources import CONFIG, DEFAULT, SET, Origin, Source
from steelyard.secrets import secret_kind, without_secrets

Settings = Sequence[tuple[str, Any]]
"""What --set gave: dotted key and value, in order."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """An experiment on one platform; `sources` says where each dotted key's value comes from."""

    experiment: Experiment
    platform: Platform
    platform_name: str | None
    """The file's own name for the platform; None where the file names none."""
    sources: Mapping[str, Source]
    reading: Reading

    @property
    def file(self) -> Path:
        return self.reading.file


PLATFORM = "platform"
"""What --set calls the chosen platform, whatever the file calls it."""

_TYPED_ELSEWHERE = {"gpu": "--gpu", "gpus_per_node": "--gpus", "nodes": "--nodes"}
"""Keys of a platform that options of their own decide, since they also choose a part of the file."""


def parse_settings(settings: Sequence[str] | Mapping[str, Any]) -> Settings:
    """Read `--set group.key=value`, the value a YAML scalar; or values by dotted key, held to the same rules."""
    if isinstance(settings, Mapping):
        for key, value in settings.items():
            _refuse_a_secret(key, value)
            _check_key(key, str(value))
        return [*settings.items()]
    return [_setting(text) for text in settings]


def _setting(text: str) -> tuple[str, Any]:
    key, _, value = text.partition("=")
    _refuse_a_secret(key, value)
    _check_key(key, value, text)
    try:
        parsed = parse_scalar(value)
    except ValueError as reason:
        raise InputError(
            f"--set {shown(text)}: {reason}", key=key, value=plain(value), expected="a YAML scalar"
        ) from None
    _refuse_a_secret(key, parsed)
    return key, parsed


def _check_key(key: str, value: str, typed: str | None = None) -> None:
    """Refuse what names no group, and what another option sets."""
    text = f"{key}={value}" if typed is None else typed
    group, _, rest = key.partition(".")
    if "=" not in text or group not in (*GROUPS, PLATFORM) or not rest:
        raise InputError(
            f"--set {shown(text)} is no setting",
            key="--set",
            value=plain(text),
            expected=f"group.key=value with a group of {', '.join((*GROUPS, PLATFORM))}",
            next=f"--set {_group_of(key)}={value or '100'}"
            if _group_of(key)
            else "--set training.steps=100; what is not of a group is changed in the file",
        )
    if group == PLATFORM and rest in _TYPED_ELSEWHERE:
        option = _TYPED_ELSEWHERE[rest]
        raise InputError(
            f"--set {shown(key)[1:-1]}: {option} sets it",
            key=plain(key),
            value=plain(value),
            next=f"{option} {shown(value)[1:-1]}",
        )


def _refuse_a_secret(key: str, value: Any) -> None:
    """Refuse a secret before anything quotes it: a command line stands in the shell's history and in the run."""
    if (named := secret_kind("", key)) is not None:
        raise InputError(f"--set: {named} stands in a key", key="--set", expected="no secret", next=SECRET_FIX)
    _, places = without_secrets({key.rpartition(".")[2]: value})
    if places:
        raise InputError(
            f"--set {shown(key)[1:-1]}: {places[0][1]} stands on the command line",
            key=plain(key),
            expected="the path of a file that holds it",
            next=SECRET_FIX,
        )


def _group_of(key: str) -> str | None:
    """The dotted key whose last part is `key`, if a group has one."""
    return next((f"{group}.{key}" for group in GROUPS if key in fields_at(Experiment, [group])), None)


def resolve(reading: Reading, settings: Settings = (), gpu: str | None = None, ranks: int | None = None) -> Resolved:
    """Merge preset < file < platform overrides < --set, validate, and remember where each value came from."""
    file, platform_name = reading, reading.platform
    content = {key: value for key, value in file.content.items() if key != "platforms"}
    typed = _nested(settings)
    platform, platform_problems = _platform(file, platform_name, gpu, ranks, typed.pop(PLATFORM, {}))
    layers: list[tuple[Source, Mapping[str, Any]]] = [(CONFIG, content)]
    if platform is not None and platform.overrides:
        known_groups = {group: values for group, values in platform.overrides.items() if group in GROUPS}
        layers.append((Source(Origin.PLATFORM, str(platform_name)), known_groups))
    layers.append((SET, typed))

    merged: dict[str, Any] = {}
    sources: dict[str, Source] = {}
    for source, layer in layers:
        _merge(merged, layer, source, sources)
        if source == CONFIG:
            sources |= reading.sources
    preset_problems = _apply_preset(merged, sources, file)

    problems = [*platform_problems, *preset_problems]
    experiment = None
    try:
        experiment = Experiment.model_validate(merged)
    except ValidationError as failed:
        hidden = {"model"} if preset_problems else set()
        kept = [details for details in failed.errors() if not hidden & set(map(str, details["loc"][:1]))]
        problems += problems_of(kept, Experiment, file, "", sources)
    if problems:  # a misspelt key is the cause of the missing one, so it is said first
        raise InvalidExperimentError(sorted(problems, key=lambda problem: problem.code == MISSING_KEY))
    assert experiment is not None
    assert platform is not None
    known = {key: sources.get(key, DEFAULT) for key, _ in leaves(experiment.model_dump())}
    return Resolved(experiment, platform, platform_name, known, reading)


def partial_settings(settings: Settings) -> tuple[dict[str, Any], dict[str, Source]]:
    """--set without a file: each value held to its key, a preset spelt out; by dotted key, values and sources."""
    nested = _nested(settings)
    if PLATFORM in nested:
        raise InputError(
            f"--set {PLATFORM} changes a platform of a config, and there is none here",
            key=PLATFORM,
            expected=f"a group of {', '.join(GROUPS)}",
            next="--gpu and --gpus say what a log was made on",
        )
    sources: dict[str, Source] = {}
    merged: dict[str, Any] = {}
    _merge(merged, nested, SET, sources)
    file = Reading(Path(SETTINGS), "", {}, None)
    problems = _apply_preset(merged, sources, file)
    try:
        Experiment.model_validate(merged)
    except ValidationError as failed:
        kept = [details for details in failed.errors() if details["type"] != "missing"]
        problems += problems_of(kept, Experiment, file, "", sources)
    raise_errors(problems)
    return dict(leaves(merged)), {key: sources.get(key, SET) for key, _ in leaves(merged)}


def _platform(
    file: Reading, name: str | None, gpu: str | None, ranks: int | None, typed: Mapping[str, Any]
) -> tuple[Platform | None, list[Problem]]:
    raw: Any = {}
    prefix = ""
    if name is not None:
        raw, prefix = file.content["platforms"][name], f"platforms.{name}"
    elif file.content.get("platforms") not in (None, {}):
        platforms = file.content["platforms"]
        if not isinstance(platforms, dict):
            return None, [wrong_value(file, "platforms", platforms, "a mapping of names to platforms")]
    if not isinstance(raw, dict):
        return None, [wrong_value(file, prefix, raw, "a mapping with gpu, nodes, gpus_per_node and framework")]
    overridden = _laid_over(raw, typed)
    sources = {key: SET for key, _ in leaves(typed)}
    if gpu is not None:
        overridden["gpu"] = gpu
    if ranks is not None:
        overridden["gpus_per_node"] = ranks
    if file.nodes_asked is not None:
        overridden["nodes"] = file.nodes_asked
    try:
        platform = Platform.model_validate(overridden)
    except ValidationError as failed:
        return None, list(problems_of(failed.errors(), Platform, file, prefix, sources))
    problems = [
        replace(
            unknown_key(file, f"{prefix}.overrides.{group}", group, GROUPS, platform.overrides[group]),
            path=("platforms", name or "", "overrides", group),
        )
        for group in platform.overrides
        if group not in GROUPS
    ]
    return platform, problems


def _laid_over(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """One mapping over another, key by key."""
    made = dict(under)
    for key, value in over.items():
        below = made.get(key)
        made[key] = _laid_over(below if isinstance(below, dict) else {}, value) if isinstance(value, dict) else value
    return made


def _apply_preset(merged: dict[str, Any], sources: dict[str, Source], file: Reading) -> list[Problem]:
    model = merged.get("model")
    preset = model.get("preset") if isinstance(model, dict) else None
    if preset is None:
        return []
    if not isinstance(preset, str) or preset not in PRESETS:
        known = ", ".join(PRESETS)
        near = difflib.get_close_matches(str(preset), PRESETS, n=1, cutoff=0.4)
        return [
            Problem(
                UNKNOWN_NAME,
                "error",
                str(file.file),
                key="model.preset",
                message=f"model.preset is {shown(preset)}, which is no known model",
                fix=f"--set model.preset={near[0] if near else next(iter(PRESETS))}",
                value=preset,
                expected=f"one of {known}",
            )
        ]
    assert isinstance(model, dict)
    under: dict[str, Any] = {}
    preset_sources: dict[str, Source] = {}
    _merge(under, PRESETS[preset], Source(Origin.PRESET, preset), preset_sources, "model.")
    _merge(under, model, CONFIG, {})
    merged["model"] = under
    for key, source in preset_sources.items():
        sources.setdefault(key, source)
    return []


def _stated(value: Any) -> bool:
    """A dash is no value; lint says so, and what it stands for is looked at as if it were absent."""
    return not (isinstance(value, str) and value == "-")


def _merge(
    into: dict[str, Any], layer: Mapping[str, Any], source: Source, sources: dict[str, Source], at: str = ""
) -> None:
    for key, value in layer.items():
        if not _stated(value):
            continue
        path = f"{at}{key}"
        if isinstance(value, Mapping):
            if not isinstance(into.get(key), dict):
                into[key] = {}
            _merge(into[key], value, source, sources, f"{path}.")
        else:
            into[key] = value
            sources[path] = source


def _nested(settings: Settings) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for key, value in settings:
        *parents, last = key.split(".")
        here = nested
        for parent in parents:
            here = here.setdefault(parent, {})
            if not isinstance(here, dict):
                raise InputError(f"--set {key}: {parent} was set to a value before", key=key, value=plain(value))
        here[last] = value
    return nested


def leaves(values: Mapping[str, Any], at: str = "") -> Iterator[tuple[str, Any]]:
    """Every value with its dotted key."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from leaves(value, f"{at}{key}.")
        else:
            yield f"{at}{key}", value
