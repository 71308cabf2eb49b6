"""From a file, a platform and --set to one experiment, with the source of each value."""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from steelyard.errors import InputError
from steelyard.experiment.experiment import GROUPS, Experiment
from steelyard.experiment.keys import DECLARED
from steelyard.experiment.parsing import parse_scalar
from steelyard.experiment.platform import Platform
from steelyard.experiment.presets import PRESETS, nearest_preset
from steelyard.experiment.problems import (
    MISSING_KEY,
    SECRET_FIX,
    SETTINGS,
    UNKNOWN_KEY,
    UNKNOWN_NAME,
    WRONG_VALUE,
    InvalidExperimentError,
    Problem,
    bare,
    plain,
    raise_errors,
    shown,
)
from steelyard.experiment.reading import PointerPath, Reading
from steelyard.experiment.sources import CONFIG, DEFAULT, SET, SUITE, Origin, Source
from steelyard.experiment.validation import fields_at, nearest, platform_path, problems_of, remove_or_rename
from steelyard.secrets import secret_kind, without_secrets

Settings = Sequence[tuple[str, Any]]
"""The values of --set: dotted key and value, in order."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """An experiment on one platform, with the source of each dotted key's value."""

    experiment: Experiment
    platform: Platform
    platform_name: str | None
    """The name of the platform in the file; None if the file has no platforms."""
    sources: Mapping[str, Source]
    reading: Reading

    @property
    def file(self) -> Path:
        return self.reading.file


PLATFORM = "platform"
"""The name of the selected platform for --set."""

NOT_OF_ONE_RUN = ("platforms", "suite")
"""Parts of a file that select or combine runs."""

_TYPED_ELSEWHERE = {"gpu": "--gpu", "gpus_per_node": "--gpus", "nodes": "--nodes", "allow": "--allow"}
"""Platform keys with their own options, which also select a part of the file."""


def parse_settings(settings: Sequence[str] | Mapping[str, Any]) -> Settings:
    """Read `--set group.key=value` with a YAML scalar as value, or a mapping of dotted keys with the same rules."""
    if isinstance(settings, Mapping):
        for key, value in settings.items():
            refuse_a_secret(key, value)
            _check_key(key, str(value), f"{key}={value}")
        return [*settings.items()]
    return [_setting(text) for text in settings]


def _setting(text: str) -> tuple[str, Any]:
    key, _, value = text.partition("=")
    refuse_a_secret(key, value)
    _check_key(key, value, text)
    try:
        parsed = parse_scalar(value)
    except ValueError as reason:
        raise InputError(
            f"--set {shown(text)}: {reason}", key=key, value=plain(value), expected="a YAML scalar"
        ) from None
    refuse_a_secret(key, parsed)
    return key, parsed


def _check_key(key: str, value: str, text: str) -> None:
    """Refuse a key without a known group, and a key that has its own option."""
    group, _, rest = key.partition(".")
    if "=" not in text or group not in (*GROUPS, PLATFORM) or not rest:
        raise InputError(
            f"--set {shown(text)} is not a setting",
            key="--set",
            value=plain(text),
            expected=f"group.key=value with a group of {', '.join((*GROUPS, PLATFORM))}, or a key of the file",
            next=_nearest_setting(key, value),
        )
    if group == PLATFORM and rest in _TYPED_ELSEWHERE:
        option = _TYPED_ELSEWHERE[rest]
        raise InputError(
            f"--set {bare(key)} is not allowed, because {option} sets it",
            key=plain(key),
            value=plain(value),
            next=f"{option} {bare(value)}",
        )


def _nearest_setting(key: str, value: str) -> str:
    """The setting that a key means: its group was left out, or it is misspelled; else an example."""
    *_, last = key.split(".")
    dotted = {f"{group}.{name}": name for group in GROUPS for name in fields_at(Experiment, [group])}
    near = next((setting for setting, name in dotted.items() if name == last), None)
    near = near or next(iter(difflib.get_close_matches(key, dotted, n=1, cutoff=0.8)), None)
    return f"--set {near}={bare(value) or 'VALUE'}" if near else "--set training.steps=100, for example"


def refuse_a_secret(key: str, value: Any) -> None:
    """Refuse a secret before any message repeats it: the shell's history and the run record the command line."""
    if (named := secret_kind("", key)) is not None:
        raise InputError(f"--set: a key contains {named}", key="--set", expected="no secret", next=SECRET_FIX)
    _, places = without_secrets({key.rpartition(".")[2]: value})
    if places:
        raise InputError(
            f"--set {bare(key)}: the command line contains {places[0][1]}",
            key=plain(key),
            expected="the path of a file that contains it",
            next=SECRET_FIX,
        )


def resolve(reading: Reading, settings: Settings = (), gpu: str | None = None, ranks: int | None = None) -> Resolved:
    """Merge preset < file < platform overrides < cell < --set, validate, and record the source of each value."""
    from_cell, from_set = _nested([*reading.cell.items()]), _nested(settings)
    platform, problems = _platform(reading, gpu, ranks, from_cell.pop(PLATFORM, {}), from_set.pop(PLATFORM, {}))
    merged: dict[str, Any] = {}
    sources: dict[str, Source] = {}
    content = {key: value for key, value in reading.content.items() if key not in NOT_OF_ONE_RUN}
    _merge(merged, content, CONFIG, sources)
    sources |= reading.sources
    if platform is not None:
        groups = {group: values for group, values in platform.overrides.items() if group in GROUPS}
        _merge(merged, groups, Source(Origin.PLATFORM, str(reading.platform)), sources)
    _merge(merged, from_cell, SUITE, sources)
    _merge(merged, from_set, SET, sources)
    experiment, experiment_problems = _validated(merged, sources, reading)
    problems += experiment_problems
    if problems:  # a misspelled key causes a missing one, so it comes first
        raise InvalidExperimentError(sorted(problems, key=lambda problem: problem.code == MISSING_KEY))
    assert experiment is not None
    assert platform is not None
    known = {key: sources.get(key, DEFAULT) for key, _ in leaves(experiment.model_dump())}
    return Resolved(experiment, platform, reading.platform, known, reading)


def _validated(
    merged: dict[str, Any], sources: dict[str, Source], file: Reading
) -> tuple[Experiment | None, list[Problem]]:
    """The experiment with its preset applied; for an unknown preset, no other problem of the model."""
    problems = _apply_preset(merged, sources, file)
    try:
        return Experiment.model_validate(merged), problems
    except ValidationError as failed:
        kept = [details for details in failed.errors() if not (problems and details["loc"][:1] == ("model",))]
        return None, [*problems, *problems_of(kept, Experiment, file, sources)]


def partial_settings(settings: Settings, option: str = SETTINGS) -> tuple[dict[str, Any], dict[str, Source]]:
    """--set without a file: validated values by dotted key, with the preset applied, and their sources.

    Errors name `option`.
    """
    declared = {key: str(value) for key, value in settings if key in DECLARED and value is not None}
    nested = _nested([(key, value) for key, value in settings if key not in declared])
    if PLATFORM in nested:
        raise InputError(
            f"--set {PLATFORM} needs a config with a platform",
            key=PLATFORM,
            expected=f"a group of {', '.join(GROUPS)}",
            next="--gpu and --gpus for the hardware of a log",
        )
    sources: dict[str, Source] = {}
    merged: dict[str, Any] = {}
    _merge(merged, nested, SET, sources)
    file = Reading(Path(option), "", {}, None)
    _, problems = _validated(merged, sources, file)
    raise_errors(problem for problem in problems if problem.code != MISSING_KEY)
    values = {**dict(leaves(merged)), **declared}
    return values, {key: sources.get(key, SET) for key in values}


def _platform(
    file: Reading, gpu: str | None, ranks: int | None, from_cell: Mapping[str, Any], from_set: Mapping[str, Any]
) -> tuple[Platform | None, list[Problem]]:
    at = platform_path(file)
    platforms = file.content.get("platforms")
    if platforms is not None and not isinstance(platforms, dict):
        return None, [_no_mapping(file, ("platforms",), platforms, "a mapping of names to platforms")]
    raw = platforms[file.platform] if platforms and file.platform is not None else {}
    if not isinstance(raw, dict):
        return None, [_no_mapping(file, at, raw, "a mapping with gpu, nodes, gpus_per_node and framework")]
    options = {"gpu": gpu, "gpus_per_node": ranks, "nodes": file.nodes_asked}
    given = {key: value for key, value in options.items() if value is not None}
    overridden = _overlaid(_overlaid(raw, from_cell), from_set) | given
    try:
        platform = Platform.model_validate(overridden)
    except ValidationError as failed:
        sources = {key: SET for key, _ in leaves(from_set)}
        return None, list(problems_of(failed.errors(), Platform, file, sources))
    problems = []
    for group, values in platform.overrides.items():
        if group not in GROUPS:
            path = (*at, "overrides", group)
            key, (near, expected) = ".".join(path), nearest(group, GROUPS)
            message, fix = f"{bare(key)} is not a known key", remove_or_rename(near)
            problems.append(Problem(UNKNOWN_KEY, "error", str(file.file), key, message, fix, values, expected, path))
    return platform, problems


def _no_mapping(file: Reading, path: PointerPath, value: Any, expected: str) -> Problem:
    key = ".".join(path)
    message, fix = f"{key} is {shown(value)}", f"change {key}"
    return Problem(WRONG_VALUE, "error", str(file.file), key, message, fix, value, expected, path)


def _overlaid(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(under)
    for key, value in over.items():
        below = merged.get(key)
        merged[key] = _overlaid(below if isinstance(below, dict) else {}, value) if isinstance(value, dict) else value
    return merged


def _apply_preset(merged: dict[str, Any], sources: dict[str, Source], file: Reading) -> list[Problem]:
    model = merged.get("model")
    if not isinstance(model, dict) or (preset := model.get("preset")) is None:
        return []
    if not isinstance(preset, str) or preset not in PRESETS:
        near = nearest_preset(str(preset))
        message = f"model.preset is {shown(preset)}, which is not a known model"
        path, expected = file.paths.get("model.preset"), f"one of {', '.join(PRESETS)}"
        fix = "use a listed model, or replace preset by the dimensions"
        if near:
            fix = f"--set model.preset={near}" if path is None else f"write {near}"
        return [Problem(UNKNOWN_NAME, "error", str(file.file), "model.preset", message, fix, preset, expected, path)]
    complete: dict[str, Any] = {}
    preset_sources: dict[str, Source] = {}
    _merge(complete, PRESETS[preset], Source(Origin.PRESET, preset), preset_sources, "model.")
    _merge(complete, model, CONFIG, {})
    merged["model"] = complete
    for key, source in preset_sources.items():
        sources.setdefault(key, source)
    return []


def _merge(
    into: dict[str, Any], layer: Mapping[str, Any], source: Source, sources: dict[str, Source], at: str = ""
) -> None:
    for key, value in layer.items():
        path = f"{at}{key}"
        if isinstance(value, Mapping):
            if not isinstance(into.get(key), dict):
                into[key] = {}
            _merge(into[key], value, source, sources, f"{path}.")
        elif value != "-":  # a dash counts as absent; SY702 reports it
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
                raise InputError(f"--set {key}: another --set has set {parent} to a value", key=key, value=plain(value))
        here[last] = value
    return nested


def leaves(values: Mapping[str, Any], at: str = "") -> Iterator[tuple[str, Any]]:
    """Every value with its dotted key."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from leaves(value, f"{at}{key}.")
        else:
            yield f"{at}{key}", value
