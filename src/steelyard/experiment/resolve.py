"""From a file, a platform and --set to one experiment, each value with its source."""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from steelyard.errors import InputError
from steelyard.experiment.complaints import fields_at, nearest, platform_path, problems_of
from steelyard.experiment.experiment import GROUPS, Experiment
from steelyard.experiment.parsing import parse_scalar
from steelyard.experiment.platform import Platform
from steelyard.experiment.presets import PRESETS
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


_IN_THE_FILE = "--set training.steps=100; what is not of a group is changed in the file"


def parse_settings(settings: Sequence[str] | Mapping[str, Any]) -> Settings:
    """Read `--set group.key=value`, the value a YAML scalar; or values by dotted key, held to the same rules."""
    if isinstance(settings, Mapping):
        for key, value in settings.items():
            _refuse_a_secret(key, value)
            _check_key(key, str(value), f"{key}={value}")
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


def _check_key(key: str, value: str, text: str) -> None:
    """Refuse what names no group, and what another option sets."""
    group, _, rest = key.partition(".")
    if "=" not in text or group not in (*GROUPS, PLATFORM) or not rest:
        meant = next((f"{group}.{key}" for group in GROUPS if key in fields_at(Experiment, [group])), None)
        raise InputError(
            f"--set {shown(text)} is no setting",
            key="--set",
            value=plain(text),
            expected=f"group.key=value with a group of {', '.join((*GROUPS, PLATFORM))}",
            next=f"--set {meant}={value or '100'}" if meant else _IN_THE_FILE,
        )
    if group == PLATFORM and rest in _TYPED_ELSEWHERE:
        option = _TYPED_ELSEWHERE[rest]
        raise InputError(
            f"--set {bare(key)}: {option} sets it",
            key=plain(key),
            value=plain(value),
            next=f"{option} {bare(value)}",
        )


def _refuse_a_secret(key: str, value: Any) -> None:
    """Refuse a secret before anything quotes it: a command line stands in the shell's history and in the run."""
    if (named := secret_kind("", key)) is not None:
        raise InputError(f"--set: {named} stands in a key", key="--set", expected="no secret", next=SECRET_FIX)
    _, places = without_secrets({key.rpartition(".")[2]: value})
    if places:
        raise InputError(
            f"--set {bare(key)}: {places[0][1]} stands on the command line",
            key=plain(key),
            expected="the path of a file that holds it",
            next=SECRET_FIX,
        )


def resolve(reading: Reading, settings: Settings = (), gpu: str | None = None, ranks: int | None = None) -> Resolved:
    """Merge preset < file < platform overrides < --set, validate, and remember where each value came from."""
    typed = _nested(settings)
    platform, problems = _platform(reading, gpu, ranks, typed.pop(PLATFORM, {}))
    merged: dict[str, Any] = {}
    sources: dict[str, Source] = {}
    _merge(merged, {key: value for key, value in reading.content.items() if key != "platforms"}, CONFIG, sources)
    sources |= reading.sources
    if platform is not None:
        groups = {group: values for group, values in platform.overrides.items() if group in GROUPS}
        _merge(merged, groups, Source(Origin.PLATFORM, str(reading.platform)), sources)
    _merge(merged, typed, SET, sources)
    experiment, experiment_problems = _validated(merged, sources, reading)
    problems += experiment_problems
    if problems:  # a misspelt key is the cause of the missing one, so it is said first
        raise InvalidExperimentError(sorted(problems, key=lambda problem: problem.code == MISSING_KEY))
    assert experiment is not None
    assert platform is not None
    known = {key: sources.get(key, DEFAULT) for key, _ in leaves(experiment.model_dump())}
    return Resolved(experiment, platform, reading.platform, known, reading)


def _validated(
    merged: dict[str, Any], sources: dict[str, Source], file: Reading
) -> tuple[Experiment | None, list[Problem]]:
    """The experiment with its preset spelt out; of a model whose preset is not known nothing else is said."""
    problems = _apply_preset(merged, sources, file)
    try:
        return Experiment.model_validate(merged), problems
    except ValidationError as failed:
        kept = [details for details in failed.errors() if not (problems and details["loc"][:1] == ("model",))]
        return None, [*problems, *problems_of(kept, Experiment, file, sources)]


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
    _, problems = _validated(merged, sources, file)
    raise_errors(problem for problem in problems if problem.code != MISSING_KEY)
    return dict(leaves(merged)), {key: sources.get(key, SET) for key, _ in leaves(merged)}


def _platform(
    file: Reading, gpu: str | None, ranks: int | None, typed: Mapping[str, Any]
) -> tuple[Platform | None, list[Problem]]:
    at = platform_path(file)
    platforms = file.content.get("platforms")
    if platforms is not None and not isinstance(platforms, dict):
        return None, [_no_mapping(file, ("platforms",), platforms, "a mapping of names to platforms")]
    raw = platforms[file.platform] if platforms and file.platform is not None else {}
    if not isinstance(raw, dict):
        return None, [_no_mapping(file, at, raw, "a mapping with gpu, nodes, gpus_per_node and framework")]
    options = {"gpu": gpu, "gpus_per_node": ranks, "nodes": file.nodes_asked}
    overridden = _laid_over(raw, typed) | {key: value for key, value in options.items() if value is not None}
    try:
        platform = Platform.model_validate(overridden)
    except ValidationError as failed:
        sources = {key: SET for key, _ in leaves(typed)}
        return None, list(problems_of(failed.errors(), Platform, file, sources))
    problems = []
    for group, values in platform.overrides.items():
        if group not in GROUPS:
            path = (*at, "overrides", group)
            key, (fix, expected) = ".".join(path), nearest(group, GROUPS)
            message = f"{bare(key)} is not a known key"
            problems.append(Problem(UNKNOWN_KEY, "error", str(file.file), key, message, fix, values, expected, path))
    return platform, problems


def _no_mapping(file: Reading, path: PointerPath, value: Any, expected: str) -> Problem:
    key = ".".join(path)
    message, fix = f"{key} is {shown(value)}", f"change {key}"
    return Problem(WRONG_VALUE, "error", str(file.file), key, message, fix, value, expected, path)


def _laid_over(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    made = dict(under)
    for key, value in over.items():
        below = made.get(key)
        made[key] = _laid_over(below if isinstance(below, dict) else {}, value) if isinstance(value, dict) else value
    return made


def _apply_preset(merged: dict[str, Any], sources: dict[str, Source], file: Reading) -> list[Problem]:
    model = merged.get("model")
    if not isinstance(model, dict) or (preset := model.get("preset")) is None:
        return []
    if not isinstance(preset, str) or preset not in PRESETS:
        near = difflib.get_close_matches(str(preset), PRESETS, n=1, cutoff=0.4)
        message = f"model.preset is {shown(preset)}, which is no known model"
        fix = f"--set model.preset={near[0] if near else next(iter(PRESETS))}"
        expected = f"one of {', '.join(PRESETS)}"
        return [Problem(UNKNOWN_NAME, "error", str(file.file), "model.preset", message, fix, preset, expected)]
    spelt_out: dict[str, Any] = {}
    preset_sources: dict[str, Source] = {}
    _merge(spelt_out, PRESETS[preset], Source(Origin.PRESET, preset), preset_sources, "model.")
    _merge(spelt_out, model, CONFIG, {})
    merged["model"] = spelt_out
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
        elif value != "-":  # a dash is no value: lint says so, and here the key counts as absent
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
