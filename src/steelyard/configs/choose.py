"""Selects a part of a config file: a platform, or a model, a GPU and a node count."""

import difflib
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

from steelyard.configs.cvs.draft import Selection, selections
from steelyard.configs.cvs.translate import reading
from steelyard.configs.cvs.values import placeholder_names
from steelyard.configs.edits import Edits, edited, split
from steelyard.configs.files import ConfigFile, FileError
from steelyard.configs.inventory import read_inventory
from steelyard.errors import InputError
from steelyard.experiment.cells import THE_ONLY, Cell
from steelyard.experiment.experiment import check_name
from steelyard.experiment.presets import nearest_preset, preset_of
from steelyard.experiment.problems import MISSING_KEY, WRONG_VALUE, InvalidExperimentError, Problem, plain, shown
from steelyard.experiment.reading import Bound, Reading
from steelyard.experiment.resolve import Settings
from steelyard.experiment.sources import SET
from steelyard.experiment.thresholds import parse_threshold
from steelyard.hardware.catalog import CPU, known_names, lookup, nearest_gpu


@dataclass(frozen=True, slots=True)
class Asked:
    """The selection on the command line and in the cluster file."""

    platform: str | None = None
    settings: Settings = ()
    gpu: str | None = None
    gpus: int | None = None
    model: str | None = None
    nodes: int | None = None
    hosts: tuple[str, ...] = ()
    """Hosts of the cluster file, in rank order."""
    head_names: tuple[str, ...] = ()
    """Other names of the first host."""
    env: tuple[tuple[str, str], ...] = ()
    """Variables of the cluster file."""
    login: tuple[str, ...] = ("ssh",)
    """The command that logs in to a host, without the host name."""
    user: str | None = None
    """The value of {user-id}: the user in the cluster file; None for the current user."""
    placeholders: tuple[tuple[str, str], ...] = ()
    """Values of other placeholders from the cluster file."""
    allow: tuple[str, ...] = ()
    """Lint codes that do not stop a plan."""
    edits: Edits = ()
    """Values of --set for keys of the file."""
    cell: Cell = THE_ONLY
    """The cell of a suite."""

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
    allow: str | Sequence[str] | None = None,
) -> Asked:
    """The selection of these options, with the hosts and the user of the cluster file."""
    check_gpu(gpu)
    texts = [allow] if isinstance(allow, str) else allow or ()
    codes = tuple(code.strip().upper() for text in texts for code in text.split(",") if code.strip())
    own, edits = split(settings or ())
    asked = Asked(platform, own, gpu, gpus, model, nodes, allow=codes, edits=edits)
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
    """Refuse a GPU that is not in the catalog."""
    if gpu is not None and gpu != CPU and lookup(gpu) is None:
        raise InputError(
            f"--gpu {shown(gpu)} is not in the catalog of GPUs",
            key="--gpu",
            value=plain(gpu),
            expected=f"one of {', '.join((CPU, *known_names()))}",
            next=f"--gpu {near}" if (near := nearest_gpu(gpu)) else "use a listed GPU, or leave out --gpu",
        )


def readings(file: ConfigFile, asked: Asked) -> list[Reading]:
    """Every selection of the file that matches; all if nothing is asked for."""
    file = edited(file, asked.edits)
    if file.family == "steelyard":
        return list(_platforms(file, asked))
    given = frozenset(key for key, _ in asked.settings)
    names, hosts = asked.names(), len(asked.hosts) or None
    return [reading(file, match, names, asked.nodes, asked.gpus, given, hosts) for match in _matching(file, asked)]


def one_reading(file: ConfigFile, asked: Asked, framework: Callable[[], str | None] = lambda: None) -> Reading:
    """The only selection; of several, the only one for the framework of a log. Others are refused."""
    matches = readings(file, asked)
    if len(matches) > 1 and file.family == "steelyard" and (name := framework()) is not None:
        platforms = file.content["platforms"]
        own = [match for match in matches if match.platform and platforms[match.platform].get("framework") == name]
        matches = own if len(own) == 1 else matches
    if len(matches) == 1:
        return matches[0]
    names = [match.platform or "" for match in matches]
    kind, option = "platforms" if file.family == "steelyard" else "combinations of model and GPU", "--platform"
    example = shlex.join([option, names[0]])
    raise FileError(
        file.path, f"has {len(names)} {kind}", key=option, expected=f"one of {', '.join(names)}", next=example
    )


def _platforms(file: ConfigFile, asked: Asked) -> Iterator[Reading]:
    if asked.model is not None:
        raise FileError(
            file.path,
            "--model selects a model of a JSON config, but this is an experiment file",
            key="--model",
            value=asked.model,
            next=f"--set model.preset={near}" if (near := nearest_preset(asked.model)) else "leave out --model",
        )
    names = platform_names(file)
    if asked.platform is not None:
        check_platform(file, asked.platform, names)
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
            sources={".".join(path): SET for path in file.set_places},
            paths=dict(asked.cell.places),
            cell=dict(asked.cell.settings),
        )


def check_platform(file: ConfigFile, name: str, names: Sequence[str]) -> None:
    """Refuse a platform that is not one of these."""
    if name not in names:
        raise FileError(
            file.path,
            f"does not have platform {name!r}" if names else "does not have platforms",
            key="--platform",
            value=name,
            expected=f"one of {', '.join(names)}" if names else None,
            next=_option("platform", name, names) if names else "leave out --platform",
        )


def _copies(platform: Any, asked: Asked) -> int:
    """Runs of a one-node job on a cluster: one per host, or as many as `--nodes` asks for.

    A cell whose suite has nodes as an axis is one job over them.
    """
    spans = platform.get("nodes", 1) if isinstance(platform, dict) else 1
    is_one_job = spans != 1 or "nodes" in dict(asked.cell.selectors)
    return (asked.nodes or len(asked.hosts)) if asked.hosts and not is_one_job else 1


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
            continue  # the validation of the experiment reports it


def _option(option: str, value: str, offered: Sequence[str]) -> str:
    """The option with the nearest name that the file has, else with its first."""
    near = difflib.get_close_matches(value, offered, n=1)
    return shlex.join([f"--{option}", *(near or offered[:1])])


def _matching(file: ConfigFile, asked: Asked) -> list[Selection]:
    matches = selections(file)
    if not matches:
        message = "model_params does not have a model and a GPU under single_node or multi_node"
        fix = "add model_params.single_node.llama3_1_8b.mi300x"
        raise InvalidExperimentError([Problem(MISSING_KEY, "error", str(file.path), "model_params", message, fix)])
    for option, part, value, meaning in (
        ("platform", "name", asked.platform, lambda _: None),
        ("model", "model", asked.model, preset_of),
        ("gpu", "gpu", None if asked.gpu == CPU else asked.gpu, lookup),  # cpu replaces any GPU and selects none
    ):
        if value is None:
            continue
        offered = list(dict.fromkeys(getattr(match, part) for match in matches))
        same = meaning(value)
        kept = [name for name in offered if name == value or (same is not None and meaning(name) == same)]
        if not kept:
            raise FileError(
                file.path,
                f"does not have {option} {value!r}",
                key=f"--{option}",
                value=value,
                expected=f"one of {', '.join(offered)}",
                next=_option(option, value, offered),
            )
        matches = [match for match in matches if getattr(match, part) in kept]
    nodes = asked.nodes or len(asked.hosts) or None
    if nodes is not None and len({match.section for match in matches}) > 1:
        section = "single_node" if nodes == 1 else "multi_node"
        matches = [match for match in matches if match.section == section]
    return matches
