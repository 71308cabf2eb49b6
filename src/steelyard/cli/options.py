"""The options that several verbs share, so that they are spelt and explained alike."""

import sys
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import typer

from steelyard.cli.verb import PARSED
from steelyard.errors import Exit
from steelyard.hardware.sizes import MAX_GPUS_PER_NODE, MAX_NODES

if TYPE_CHECKING:
    from steelyard.api import PlacedSelection
    from steelyard.configs.choose import Asked


CONFIG = ("FILE", "A training config, YAML or JSON; `steelyard init` writes one.")
RUN = ("RUN|FLEET", "A run or a fleet: its directory, or its name under --out.")
RUNS = ("RUNS…", "Runs, comma-separated lists of them, or directories of runs.")
NEW_HOST_KEYS = ("--accept-new-host-keys", "Take a host never seen before at its word, and remember it.")
WARMUP = ("--warmup-steps N", "Leave out at least N steps; more if more are detected.")
MARGIN = ("--margin SHARE", "What is too little to matter, such as 0.03 or 3%; 5% if not said.")
DEBUG = ("--debug", "Show the traceback of an error.")
VERBOSE = ("-v --verbose", "Print every check and the evidence.")
QUIET = ("-q --quiet", "Print only the first line.")


def examples(*commands: str) -> str:
    """The end of a verb's help: one command per line."""
    return "\b\nExamples:\n" + "\n".join(f"  {command}" for command in commands)


def argument(metavar: str, help: str, default: Any = MISSING) -> Any:
    """A field of a verb's options that is given by its place."""
    return field(default=default, metadata={PARSED: typer.Argument(metavar=metavar, help=help)})


def option(usage: str, help: str, default: Any = None, **rules: Any) -> Any:
    """Another, as --help shows it: `-o --output FILE` is its names and its value; without a value it is a flag."""
    *names, metavar = usage.split()
    if metavar.startswith("-"):
        parsed, default = typer.Option(*names, metavar, help=help, **rules), False
    else:
        parsed = typer.Option(*names, metavar=metavar, help=help, **rules)
    return field(default=default, metadata={PARSED: parsed})


def help_unless_asked(context: typer.Context) -> None:
    """A group of verbs without a verb shows its help, which is what was missing: exit 2."""
    if context.invoked_subcommand is None:
        sys.stdout.write(context.get_help() + "\n")
        raise typer.Exit(Exit.INPUT)


@dataclass(frozen=True, kw_only=True)
class Printing:
    as_json: bool = option("--json", "Print one JSON document on standard output.")
    debug: bool = option(*DEBUG)


@dataclass(frozen=True, kw_only=True)
class Kept(Printing):
    out: Path = option("--out DIR", "The directory runs are kept in.", Path("runs"), envvar="STEELYARD_RUNS")


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Which experiment on which platform, of verbs that take a config."""

    platform: str | None = option("--platform NAME", "Which of the file's platforms; lint takes all.")
    model: str | None = option("--model MODEL", "Which of a JSON config's models; lint takes all.")
    settings: list[str] | None = option("--set GROUP.KEY=VALUE", "Override a value of the file; may be repeated.")
    gpu: str | None = option(
        "--gpu GPU", "A GPU of the catalog, or cpu, in place of the platform's; selects in a JSON config."
    )
    gpus: int | None = option(
        "--gpus N", "GPUs of one node (ranks on cpu), in place of the platform's.", min=1, max=MAX_GPUS_PER_NODE
    )
    nodes: int | None = option("--nodes N", "Machines, in place of the file's own count.", min=1, max=MAX_NODES)
    cluster: Path | None = option("--cluster FILE", "The cluster's hosts, JSON or YAML, in rank order.")

    def selection(self) -> "PlacedSelection":
        return cast("PlacedSelection", {field.name: getattr(self, field.name) for field in fields(Selection)})

    def asked(self) -> "Asked":
        """With the hosts and the user of the cluster file."""
        from steelyard.configs.choose import asked_of

        return asked_of(**self.selection())


@dataclass(frozen=True, kw_only=True)
class Fillable(Selection):
    """The same, of verbs that may ask for what a file leaves open."""

    fill: bool = option("--fill", "Ask on the terminal for what the file leaves open, and write it there.")
