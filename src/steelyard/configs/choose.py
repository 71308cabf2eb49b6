"""Which part of a config file is meant: a platform, or a model, a GPU and a node count."""

import getpass
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from steelyard.configs.files import ConfigFile, FileError
from steelyard.configs.suite.draft import Selection, selections
from steelyard.configs.suite.translate import preset_of, reading
from steelyard.experiment.experiment import check_name
from steelyard.experiment.problems import WRONG_VALUE, InvalidExperimentError, Problem
from steelyard.experiment.reading import Bound, Reading
from steelyard.experiment.resolve import Settings
from steelyard.experiment.thresholds import parse_threshold
from steelyard.hardware.catalog import CPU, lookup


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
        """What the placeholders of a file stand for."""
        user = self.user or this_user()
        return {
            "user-id": user,
            "user": user,
            "home": "/root" if user == "root" else f"/home/{user}",
            "home-mount-dir": "home",
            "node-dir-name": "root",
            **dict(self.placeholders),
        }


def this_user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "root"


def readings(file: ConfigFile, asked: Asked) -> list[Reading]:
    """Every selection of the file that is asked for; all of them where nothing is."""
    if file.family == "steelyard":
        return list(_platforms(file, asked))
    return [_cvs_reading(file, selection, asked) for selection in _matching(file, asked)]


def one_reading(file: ConfigFile, asked: Asked) -> Reading:
    """The one selection to plan; several and none named is refused."""
    found = readings(file, asked)
    if len(found) == 1:
        return found[0]
    names = [reading.platform or "" for reading in found]
    if file.family == "steelyard":
        raise FileError(
            file.path,
            "has several platforms",
            key="--platform",
            expected=f"one of {', '.join(names)}",
            next=f"--platform {names[0]}",
        )
    first = found[0]
    models = list(dict.fromkeys(reading.model_key or "" for reading in found))
    sections = {reading.section for reading in found}
    if len(sections) > 1:
        key, next_ = "--nodes", "--nodes 1"
    elif len(models) > 1:
        key, next_ = "--model", f"--model {models[0]}"
    else:
        key, next_ = "--gpu", f"--gpu {first.content['platforms'][first.platform].get('gpu')}"
    raise FileError(
        file.path,
        f"holds {len(found)} selections",
        key=key,
        expected=f"one of {', '.join(names)}",
        next=f"{next_}, or --platform {names[0]}",
    )


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
        found = (
            f"has no platform {asked.platform!r}" if names else f"names no platforms, so not {asked.platform!r} either"
        )
        raise FileError(
            file.path,
            found,
            key="--platform",
            value=asked.platform,
            expected=f"one of {', '.join(names)}" if names else "no --platform",
            next=f"--platform {names[0]}" if names else f"steelyard plan {file.path}",
        )
    wanted: list[str | None] = [asked.platform] if asked.platform else [*names] or [None]
    for name in wanted:
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
    """The platforms an experiment file names, in its order."""
    platforms = file.content.get("platforms") or {}
    if not isinstance(platforms, dict):
        return []
    for name in platforms:
        try:
            check_name(name)
        except ValueError as reason:
            problem = Problem(
                WRONG_VALUE, "error", str(file.path), "platforms", f"platforms: {reason}", "rename it", name
            )
            raise InvalidExperimentError([problem]) from None
    return list(platforms)


def _bounds(content: Mapping[str, Any]) -> Iterator[Bound]:
    thresholds = content.get("thresholds")
    for at, text in enumerate(thresholds if isinstance(thresholds, list) else ()):
        try:
            yield Bound(parse_threshold(text), ("thresholds", str(at)))
        except (TypeError, ValueError):
            continue  # which the experiment's own validation says


def _matching(file: ConfigFile, asked: Asked) -> list[Selection]:
    every = selections(file)
    if not every:
        problem = Problem(
            "SY104",
            "error",
            str(file.path),
            "model_params",
            "model_params holds no model on a GPU under single_node or multi_node",
            "add model_params.single_node.llama3_1_8b.mi300x",
        )
        raise InvalidExperimentError([problem])
    found = every
    for option, value, keep in (
        ("--platform", asked.platform, lambda selection: selection.name == asked.platform),
        ("--model", asked.model, lambda selection: _same_model(selection.model, asked.model)),
        ("--gpu", asked.gpu, lambda selection: _same_gpu(selection.gpu, asked.gpu)),
    ):
        if value is None or (option == "--gpu" and value == CPU):  # which takes any GPU's place and selects none
            continue
        left = [selection for selection in found if keep(selection)]
        if not left:
            part = {"--platform": "name", "--model": "model", "--gpu": "gpu"}[option]
            there = list(dict.fromkeys(getattr(selection, part) for selection in found))
            raise FileError(
                file.path,
                f"has no {option.removeprefix('--')} {value!r}",
                key=option,
                value=value,
                expected=f"one of {', '.join(there)}",
                next=f"{option} {there[0]}",
            )
        found = left
    nodes = asked.nodes or len(asked.hosts) or None
    if nodes is not None and len({selection.section for selection in found}) > 1:
        section = "single_node" if nodes == 1 else "multi_node"
        found = [selection for selection in found if selection.section == section]
    return found


def _same_model(ours: str, asked: str | None) -> bool:
    return ours == asked or (preset_of(ours) is not None and preset_of(ours) == preset_of(asked or ""))


def _same_gpu(ours: str, asked: str | None) -> bool:
    return ours == asked or (lookup(ours) is not None and lookup(ours) is lookup(asked or ""))


def _cvs_reading(file: ConfigFile, selection: Selection, asked: Asked) -> Reading:
    given = frozenset(key for key, _ in asked.settings)
    return reading(file, selection, asked.names(), asked.nodes, asked.gpus, given, len(asked.hosts) or None)
