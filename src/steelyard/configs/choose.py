"""Which part of a config file is meant: a platform, or a model, a GPU and a node count."""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

from steelyard.configs.files import ConfigFile, FileError
from steelyard.configs.inventory import read_inventory
from steelyard.configs.suite.draft import Selection, selections
from steelyard.configs.suite.translate import preset_of, reading
from steelyard.configs.suite.values import placeholder_names
from steelyard.errors import InputError
from steelyard.experiment import parse_settings
from steelyard.experiment.experiment import check_name
from steelyard.experiment.problems import MISSING_KEY, WRONG_VALUE, InvalidExperimentError, Problem, plain, shown
from steelyard.experiment.reading import Bound, Reading
from steelyard.experiment.resolve import Settings
from steelyard.experiment.thresholds import parse_threshold
from steelyard.hardware.catalog import CPU, known_names, lookup


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line says beside the file."""

    platform: str | None = None
    settings: Settings = ()
    gpu: str | None = None
    gpus: int | None = None
    model: str | None = None
    nodes: int | None = None
    hosts: tuple[str, ...] = ()
    """Of the cluster file, in rank order."""
    head_names: tuple[str, ...] = ()
    """What else the first of them is called."""
    env: tuple[tuple[str, str], ...] = ()
    """Variables of the cluster file."""
    login: tuple[str, ...] = ("ssh",)
    """How a host is reached, its name to follow."""
    user: str | None = None
    """Who {user-id} is: the cluster's user, else this one."""
    placeholders: tuple[tuple[str, str], ...] = ()
    """What else the cluster file says placeholders stand for."""

    def names(self) -> Mapping[str, str]:
        return {**placeholder_names(self.user), **dict(self.placeholders)}


def asked_of(
    platform: str | None = None,
    settings: Sequence[str] | Mapping[str, Any] | None = None,
    gpu: str | None = None,
    gpus: int | None = None,
    model: str | None = None,
    nodes: int | None = None,
    cluster: str | PathLike[str] | None = None,
) -> Asked:
    """What the options say, with the hosts and the user of the cluster file."""
    check_gpu(gpu)
    asked = Asked(platform, parse_settings(settings or ()), gpu, gpus, model, nodes)
    if not cluster:
        return asked
    inventory = read_inventory(Path(cluster))
    hosts = inventory.addresses
    return replace(
        asked,
        hosts=hosts[:nodes],
        head_names=inventory.aliases.get(hosts[0], ()),
        env=tuple(inventory.env.items()),
        login=inventory.login,
        user=inventory.user,
        placeholders=inventory.placeholders,
    )


def check_gpu(gpu: str | None) -> None:
    """Refuse a GPU we hold no figures for."""
    if gpu is not None and gpu != CPU and lookup(gpu) is None:
        raise InputError(
            f"--gpu {shown(gpu)} is not in the catalog of GPUs",
            key="--gpu",
            value=plain(gpu),
            expected=f"one of {', '.join((CPU, *known_names()))}",
            next=f"--gpu {next(iter(difflib.get_close_matches(gpu.lower(), known_names(), n=1)), 'h100')}",
        )


def readings(file: ConfigFile, asked: Asked) -> list[Reading]:
    """Every selection of the file that is asked for; all of them where nothing is."""
    if file.family == "steelyard":
        return list(_platforms(file, asked))
    given = frozenset(key for key, _ in asked.settings)
    names, hosts = asked.names(), len(asked.hosts) or None
    return [reading(file, match, names, asked.nodes, asked.gpus, given, hosts) for match in _matching(file, asked)]


def one_reading(file: ConfigFile, asked: Asked) -> Reading:
    """The one selection to plan; several and none named is refused."""
    matches = readings(file, asked)
    first = matches[0]
    if len(matches) == 1:
        return first
    names = [match.platform or "" for match in matches]
    expected, next_ = f"one of {', '.join(names)}", f"--platform {names[0]}"
    if file.family == "steelyard":
        raise FileError(file.path, "has several platforms", key="--platform", expected=expected, next=next_)
    option = f"--gpu {first.content['platforms'][first.platform].get('gpu')}"
    if len({match.section for match in matches}) > 1:
        option = "--nodes 1"
    elif len({match.model_key for match in matches}) > 1:
        option = f"--model {first.model_key}"
    message, key = f"holds {len(matches)} selections", option.partition(" ")[0]
    raise FileError(file.path, message, key=key, expected=expected, next=f"{option}, or {next_}")


def _platforms(file: ConfigFile, asked: Asked) -> Iterator[Reading]:
    if asked.model is not None:
        raise FileError(
            file.path,
            "--model chooses among the models of a JSON config, and this file has one",
            key="--model",
            value=asked.model,
            next=f"--set model.preset={asked.model}",
        )
    names = platform_names(file)
    if asked.platform is not None and asked.platform not in names:
        raise FileError(
            file.path,
            f"has no platform {asked.platform!r}" if names else f"names no platforms, so not {asked.platform!r} either",
            key="--platform",
            value=asked.platform,
            expected=f"one of {', '.join(names)}" if names else "no --platform",
            next=f"--platform {names[0]}" if names else f"steelyard plan {file.path}",
        )
    chosen: list[str | None] = [asked.platform] if asked.platform else [*names] or [None]
    for name in chosen:
        copies = _copies(file.content["platforms"][name] if name else {}, asked)
        yield Reading(
            file.path,
            file.sha256,
            file.content,
            name,
            problems=file.problems,
            copies=copies,
            nodes_asked=asked.nodes if copies == 1 else None,
            bounds=tuple(_bounds(file.content)),
        )


def _copies(platform: Any, asked: Asked) -> int:
    """A job of one node on a cluster of several is as many runs, or as many as are asked for."""
    spans = platform.get("nodes", 1) if isinstance(platform, dict) else 1
    return (asked.nodes or len(asked.hosts)) if asked.hosts and spans == 1 else 1


def platform_names(file: ConfigFile) -> list[str]:
    platforms = file.content.get("platforms") or {}
    for name in platforms if isinstance(platforms, dict) else ():
        try:
            check_name(name)
        except ValueError as reason:
            message = f"platforms: {reason}"
            problem = Problem(WRONG_VALUE, "error", str(file.path), "platforms", message, "rename it", name)
            raise InvalidExperimentError([problem]) from None
    return list(platforms) if isinstance(platforms, dict) else []


def _bounds(content: Mapping[str, Any]) -> Iterator[Bound]:
    thresholds = content.get("thresholds")
    for at, text in enumerate(thresholds if isinstance(thresholds, list) else ()):
        try:
            yield Bound(parse_threshold(text), ("thresholds", str(at)))
        except (TypeError, ValueError):
            continue  # which the experiment's own validation says


def _matching(file: ConfigFile, asked: Asked) -> list[Selection]:
    matches = selections(file)
    if not matches:
        message = "model_params holds no model on a GPU under single_node or multi_node"
        fix = "add model_params.single_node.llama3_1_8b.mi300x"
        raise InvalidExperimentError([Problem(MISSING_KEY, "error", str(file.path), "model_params", message, fix)])
    for option, part, value, meaning in (
        ("platform", "name", asked.platform, lambda _: None),
        ("model", "model", asked.model, preset_of),
        ("gpu", "gpu", None if asked.gpu == CPU else asked.gpu, lookup),  # cpu takes any GPU's place and selects none
    ):
        if value is None:
            continue
        offered = list(dict.fromkeys(getattr(match, part) for match in matches))
        meant = meaning(value)
        kept = [name for name in offered if name == value or (meant is not None and meaning(name) == meant)]
        if not kept:
            raise FileError(
                file.path,
                f"has no {option} {value!r}",
                key=f"--{option}",
                value=value,
                expected=f"one of {', '.join(offered)}",
                next=f"--{option} {offered[0]}",
            )
        matches = [match for match in matches if getattr(match, part) in kept]
    nodes = asked.nodes or len(asked.hosts) or None
    if nodes is not None and len({match.section for match in matches}) > 1:
        section = "single_node" if nodes == 1 else "multi_node"
        matches = [match for match in matches if match.section == section]
    return matches
