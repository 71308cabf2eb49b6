"""From the command line's words to a plan, alike for every verb that needs one."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard.cli import printing
from steelyard.cluster.inventory import is_inventory
from steelyard.errors import InputError
from steelyard.experiment import Asked, one_reading, parse_settings, read_config, resolve
from steelyard.experiment.files import read_mapping, with_family
from steelyard.experiment.problems import plain, raise_errors, shown
from steelyard.experiment.thresholds import parse_threshold
from steelyard.hardware.catalog import CPU, known_names, lookup
from steelyard.hardware.machine import Machine, discover

if TYPE_CHECKING:
    from steelyard.runner import Planned


def planned(file: Path, asked: Asked) -> tuple["Planned", Machine]:
    """Read, resolve and plan; whatever is wrong is one sentence."""
    from steelyard.runner import make_plan  # here, since lint needs none of it

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
    if len(made.plan.nodes) > 1 and not asked.hosts:
        user = "" if reading.family == "steelyard" else f", and {{user-id}} is {asked.names()['user']}"
        printing.note(
            f"no --cluster: the hosts are called {made.plan.nodes[0].host}, {made.plan.nodes[1].host}, …{user}"
        )
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
    hosts: tuple[str, ...] = ()
    user: str | None = None
    placeholders: tuple[tuple[str, str], ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    heads: tuple[str, ...] = ()
    login: tuple[str, ...] = ("ssh",)
    if cluster is not None:
        from steelyard.cluster.inventory import read_inventory

        inventory = read_inventory(cluster)
        hosts, user, placeholders = inventory.addresses, inventory.user, inventory.placeholders
        env, heads = tuple(inventory.env.items()), inventory.aliases.get(hosts[0], ())
        login = inventory.login
        if nodes is not None and nodes < len(hosts):
            hosts = hosts[:nodes]
    given = parse_settings(settings or [])
    return Asked(platform, given, gpu, gpus, model, nodes, hosts, heads, env, login, user, placeholders)


def check_gpu(gpu: str | None) -> None:
    """Refuse a typed GPU we hold no figures for."""
    if gpu is not None and gpu != CPU and lookup(gpu) is None:
        raise InputError(
            f"--gpu {shown(gpu)} is not in the catalog of GPUs",
            key="--gpu",
            value=plain(gpu),
            expected=f"one of {', '.join((CPU, *known_names()))}",
            next="--gpu h100",
        )


def check_thresholds(texts: list[str]) -> None:
    """Refuse a typed bound that is none."""
    for text in texts:
        try:
            parse_threshold(text)
        except ValueError as reason:
            raise InputError(
                f"--threshold: {reason}",
                key="--threshold",
                value=plain(text),
                next='--threshold "step_time_s<=12", quoted, since the shell takes > for itself',
            ) from None


def fill_file(path: Path, asked: Asked) -> None:
    """Ask for what the file leaves open and write it there; nothing is written unless all of it is answered."""
    from steelyard.experiment.fill import Gap, ask_for, filled_text, gaps
    from steelyard.records.writer import write_atomically

    file = read_config(path)
    if not file.is_json:
        raise InputError(
            f"{path}: --fill writes into JSON configs", key="--fill", value=str(path), next="write the places by hand"
        )
    found = gaps(file, asked) if file.family != "steelyard" else []
    if not found:
        printing.note(f"{path}: nothing is left open")
        return
    if not sys.stdin.isatty():
        raise InputError(
            f"{path}: {len(found)} place{'s are' if len(found) != 1 else ' is'} left open, and there is no terminal",
            key="--fill",
            value=found[0].key.name,
            expected="a terminal",
            next=f"steelyard lint {path}, which names each of them",
        )

    printing.note(
        f"{path}: {len(found)} place{'s' * (len(found) != 1)} to fill. Return alone takes what stands in brackets; "
        "nothing is written before the last answer, and Ctrl-C writes nothing."
    )

    def ask(gap: Gap) -> str:
        place = " / ".join(gap.path)
        listed = (
            f" One of {', '.join(gap.choices)}."
            if gap.choices and not all(c in gap.key.meaning for c in gap.choices)
            else ""
        )
        printing.note(f"{place}\n  {gap.key.meaning}{listed}")
        while True:
            hint = f" [{gap.example}]" if gap.example else ""
            sys.stderr.write(f"  {gap.key.name}{hint}: ")
            sys.stderr.flush()
            line = sys.stdin.readline()
            if not line:
                raise InputError(f"{path}: the answers ended before every place was filled; nothing was written")
            text = line.strip() or gap.example or ""
            if not text:
                printing.note("  nothing suggests a value here")
                continue
            refused = gap.accepts(text)
            if refused is None:
                return text
            printing.note(f"  {shown(text)}: {refused}")

    mark = "\ufeff" if path.read_bytes().startswith(b"\xef\xbb\xbf") else ""
    write_atomically(path.resolve(), mark + filled_text(file, ask_for(found, ask)))
    printing.note(f"{path}: {len(found)} place{'s' * (len(found) != 1)} filled")
