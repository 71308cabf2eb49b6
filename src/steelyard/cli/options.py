"""Options that several verbs share."""

import shlex
import sys
import textwrap
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import typer

from steelyard.cli.verb import PARSED
from steelyard.errors import Exit, InputError
from steelyard.hardware.sizes import MAX_GPUS_PER_NODE, MAX_NODES

if TYPE_CHECKING:
    from steelyard.api import PlacedSelection
    from steelyard.configs.choose import Asked


CONFIG = ("FILE", "A training config, YAML or JSON; `steelyard init` writes one.")
RUN = ("RUN|FLEET", "A run or a fleet: its directory, or its name under --out.")
RUNS = ("RUNS", "Runs, comma-separated lists of them, or directories of runs.")
NEW_HOST_KEYS = ("--accept-new-host-keys", "Accept the ssh key of a new host, and store it.")
WARMUP = ("--warmup-steps N", "Leave out at least N steps; more if the warm-up is longer.")
MARGIN = ("--margin SHARE", "Smallest difference that matters, such as 0.03 or 3% (default 5%).")
DEBUG = ("--debug", "Show the traceback of an error.")
VERBOSE = ("-v --verbose", "Print every check and the evidence.")
QUIET = ("-q --quiet", "Print only the first line.")


def examples(*commands: str) -> str:
    """The end of a verb's help: one command per line, continued on the next line if it is long."""
    lines = (textwrap.wrap(command, 72, break_long_words=False, break_on_hyphens=False) for command in commands)
    return "\b\nExamples:\n" + "\n".join("  " + " \\\n      ".join(parts) for parts in lines)


def argument(metavar: str, help: str, default: Any = MISSING, **rules: Any) -> Any:
    """A field of a verb's options that is a positional argument. `metavar` is its name in the help."""
    return field(default=default, metadata={PARSED: typer.Argument(metavar=metavar, help=help, **rules)})


def option(usage: str, help: str, default: Any = None, **rules: Any) -> Any:
    """A field that is an option. `usage` has its names and its value, as in `-o --output FILE`; a flag has no value."""
    *names, metavar = usage.split()
    if metavar.startswith("-"):
        parsed, default = typer.Option(*names, metavar, help=help, **rules), False
    else:
        parsed = typer.Option(*names, metavar=metavar, help=help, **rules)
    return field(default=default, metadata={PARSED: parsed})


def help_unless_asked(context: typer.Context) -> None:
    """Show the help of a group if its verb is missing, and exit with 2."""
    if context.invoked_subcommand is None:
        sys.stdout.write(context.get_help() + "\n")
        raise typer.Exit(Exit.INPUT)


def size_of(text: str) -> int:
    """The bytes of `--max-unpacked`."""
    from steelyard.ingestion import sources

    size = sources.size_of(text)
    if size is None:
        complaint, expected = f"--max-unpacked {text!r} is not a size", "a whole number with KiB, MiB, GiB or TiB"
        raise InputError(complaint, key="--max-unpacked", value=text, expected=expected, next="--max-unpacked 64GiB")
    return size


@dataclass(frozen=True, kw_only=True)
class Printing:
    as_json: bool = option("--json", "Print one JSON document on standard output.")
    debug: bool = option(*DEBUG)


@dataclass(frozen=True, kw_only=True)
class Kept(Printing):
    out: Path = option("--out DIR", "The directory of the runs.", Path("runs"), envvar="STEELYARD_RUNS")


@dataclass(frozen=True, kw_only=True)
class OwnGpu:
    """Options that state the figures of the run's GPU."""

    gpu_peak: list[str] | None = option(
        "--gpu-peak PRECISION=TFLOPS", "Dense peak per GPU of an unlisted GPU, such as bf16=209; may be repeated."
    )
    gpu_memory: float | None = option("--gpu-memory GIB", "Memory per GPU of an unlisted GPU, such as 32.")


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Options of verbs that take a config: the experiment and its platform."""

    platform: str | None = option("--platform NAME", "Select a platform of the file.")
    model: str | None = option("--model MODEL", "Select a model of a JSON config.")
    settings: list[str] | None = option(
        "--set KEY=VALUE", "Set a value of the experiment, or any key of the file; may be repeated."
    )
    gpu: str | None = option("--gpu GPU", "Use this GPU, or cpu; in a JSON config, select its parameters.")
    gpus: int | None = option("--gpus N", "GPUs per node, or ranks on cpu.", min=1, max=MAX_GPUS_PER_NODE)
    nodes: int | None = option("--nodes N", "Number of nodes.", min=1, max=MAX_NODES)
    cluster: Path | None = option("--cluster FILE", "Hosts in rank order, as YAML or JSON.")
    allow: list[str] | None = option("--allow CODES", "Lint codes that do not stop it, such as SY503,SY403.")

    def selection(self) -> "PlacedSelection":
        return cast("PlacedSelection", {field.name: getattr(self, field.name) for field in fields(Selection)})

    def asked(self) -> "Asked":
        """The selection, with the hosts and the user of the cluster file."""
        from steelyard.configs.choose import asked_of

        return asked_of(**self.selection())

    def typed_again(self) -> str:
        """The options of the selection, to be appended to a suggested command."""
        return as_options(self.selection())


def as_options(selection: "PlacedSelection") -> str:
    """A selection as it is typed, with a space before it."""
    names = ("platform", "model", "gpu", "gpus", "nodes", "cluster")
    given = [(f"--{name}", str(value)) for name in names if (value := selection.get(name)) is not None]
    given += [("--allow", codes) for codes in selection.get("allow") or ()]
    given += [("--set", setting) for setting in selection.get("settings") or ()]
    return "".join(f" {shlex.join(pair)}" for pair in given)


@dataclass(frozen=True, kw_only=True)
class Fillable(Selection):
    """The same for verbs that can fill in placeholders."""

    fill: bool = option("--fill", "Ask for values that are not filled in, and write them to the file.")
