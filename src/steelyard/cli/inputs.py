"""From the command line's words to a plan, alike for every verb that needs one."""

import difflib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard.cli import printing
from steelyard.configs.choose import Asked, one_reading
from steelyard.configs.files import read_mapping, with_family
from steelyard.configs.inventory import is_inventory, read_inventory
from steelyard.errors import InputError
from steelyard.experiment import parse_settings, resolve
from steelyard.experiment.problems import plain, raise_errors, shown
from steelyard.experiment.thresholds import parse_threshold
from steelyard.hardware.catalog import CPU, known_names, lookup
from steelyard.hardware.machine import Machine, discover

if TYPE_CHECKING:
    from steelyard.planning.plan import Planned


def planned(file: Path, asked: Asked, aloud: bool = True) -> tuple["Planned", Machine]:
    """Read, resolve and plan; whatever is wrong is one sentence. Not aloud: what it would note was noted before."""
    from steelyard.planning.plan import make_plan  # here, since lint needs none of it

    content = read_mapping(file)
    if is_inventory(content.content):
        raise InputError(
            f"{file} is a cluster file",
            key="FILE",
            value=str(file),
            expected="a training config",
            next=f"steelyard plan CONFIG --cluster {file}",
        )
    reading = one_reading(with_family(content), asked)
    raise_errors(reading.problems)
    resolved = resolve(reading, asked.settings, asked.gpu, asked.gpus)
    machine = discover()
    made = make_plan(resolved, machine, asked)
    if not aloud:
        return made, machine
    if len(made.plan.nodes) > 1 and not asked.hosts:
        user = "" if reading.family == "steelyard" else f", and {{user-id}} is {asked.names()['user']}"
        printing.note(
            f"no --cluster: the hosts are called {made.plan.nodes[0].host}, {made.plan.nodes[1].host}, …{user}"
        )
    if made.plan.allowed:
        listed = "; ".join(f"{one.code} {one.message}" for one in made.plan.allowed)
        printing.note(f"allowed by the platform: {listed}")
    for warning in made.warnings:
        if warning.severity == "warning":
            printing.note(f"warning: {warning.code} {warning.message}; {warning.fix}")
    return made, machine


def asked_of(
    platform: str | None = None,
    settings: list[str] | None = None,
    gpu: str | None = None,
    gpus: int | None = None,
    model: str | None = None,
    nodes: int | None = None,
    cluster: Path | None = None,
) -> Asked:
    """What the options say, with the hosts and the user of the cluster file."""
    check_gpu(gpu)
    asked = Asked(platform, parse_settings(settings or []), gpu, gpus, model, nodes)
    if cluster is None:
        return asked
    inventory = read_inventory(cluster)
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
    """Refuse a typed GPU we hold no figures for."""
    if gpu is not None and gpu != CPU and lookup(gpu) is None:
        raise InputError(
            f"--gpu {shown(gpu)} is not in the catalog of GPUs",
            key="--gpu",
            value=plain(gpu),
            expected=f"one of {', '.join((CPU, *known_names()))}",
            next=f"--gpu {next(iter(difflib.get_close_matches(gpu.lower(), known_names(), n=1)), 'h100')}",
        )


def check_thresholds(texts: list[str]) -> None:
    """Refuse a typed bound that is none."""
    _check_bounds(texts, "--threshold", '--threshold "step_time_s<=12", quoted, since the shell takes > for itself')


def thresholds_of(file: Path) -> list[str]:
    """The bounds of a file with `thresholds`: what `runs learn -o` wrote, or an experiment."""
    example = 'thresholds: ["step_time_s<=12"]'
    found = read_mapping(file, "a file with thresholds", example).content.get("thresholds")
    if not isinstance(found, list) or not found or not all(isinstance(one, str) for one in found):
        raise InputError(
            f"{file}: thresholds is {shown(found)}",
            key="thresholds",
            value=plain(found),
            expected="a list of bounds",
            next=example,
        )
    _check_bounds(found, f"{file}: thresholds", example)
    return found


def _check_bounds(texts: list[str], place: str, example: str) -> None:
    for text in texts:
        try:
            parse_threshold(text)
        except ValueError as reason:
            raise InputError(
                f"{place}: {reason}", key=place.rpartition(" ")[2], value=plain(text), next=example
            ) from None
