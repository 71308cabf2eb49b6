"""The options that several verbs share, so that they are spelt and explained alike."""

import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.errors import Exit, InputError
from steelyard.hardware.sizes import MAX_GPUS_PER_NODE, MAX_NODES

if TYPE_CHECKING:
    from steelyard.configs.choose import Asked

FileArgument = Annotated[
    Path, typer.Argument(metavar="FILE", help="A training config, YAML or JSON; `steelyard init` writes one.")
]
PlatformOption = Annotated[
    str | None, typer.Option("--platform", metavar="NAME", help="Which of the file's platforms; lint takes all.")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="GROUP.KEY=VALUE", help="Override a value of the file; may be repeated."),
]
GpuOption = Annotated[
    str | None,
    typer.Option(
        "--gpu",
        metavar="GPU",
        help="A GPU of the catalog, or cpu, in place of the platform's; selects in a JSON config.",
    ),
]
GpusOption = Annotated[
    int | None,
    typer.Option(
        "--gpus",
        metavar="N",
        min=1,
        max=MAX_GPUS_PER_NODE,
        help="GPUs of one node (ranks on cpu), in place of the platform's.",
    ),
]
ModelOption = Annotated[
    str | None, typer.Option("--model", metavar="MODEL", help="Which of a JSON config's models; lint takes all.")
]
NodesOption = Annotated[
    int | None,
    typer.Option("--nodes", metavar="N", min=1, max=MAX_NODES, help="Machines, in place of the file's own count."),
]
ClusterOption = Annotated[
    Path | None, typer.Option("--cluster", metavar="FILE", help="The cluster's hosts, JSON or YAML, in rank order.")
]
NewKeysOption = Annotated[
    bool, typer.Option("--accept-new-host-keys", help="Take a host never seen before at its word, and remember it.")
]
FillOption = Annotated[
    bool, typer.Option("--fill", help="Ask on the terminal for what the file leaves open, and write it there.")
]
OutOption = Annotated[
    Path, typer.Option("--out", metavar="DIR", envvar="STEELYARD_RUNS", help="The directory runs are kept in.")
]
WarmupOption = Annotated[
    int,
    typer.Option("--warmup-steps", metavar="N", min=0, help="Leave out at least N steps; more if more are detected."),
]
MarginOption = Annotated[
    str | None,
    typer.Option("--margin", metavar="SHARE", help="What is too little to matter, such as 0.03 or 3%; 5% if not said."),
]
LEAST_MARGIN, MOST_MARGIN = 0.0001, 0.9999
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output.")]
DebugOption = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
DEFAULT_OUT = Path("runs")


def help_unless_asked(context: typer.Context) -> None:
    """A group of verbs without a verb shows its help, which is what was missing: exit 2."""
    if context.invoked_subcommand is None:
        sys.stdout.write(context.get_help() + "\n")
        raise typer.Exit(Exit.INPUT)


def margin_share(text: str | None) -> float | None:
    """What `--margin` says."""
    if text is None:
        return None
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = math.nan
    if not LEAST_MARGIN <= share <= MOST_MARGIN:
        raise InputError(
            f"--margin {text} is no share",
            key="--margin",
            value=text,
            expected=f"a share from {LEAST_MARGIN} to {MOST_MARGIN}, or as much in percent",
            next="--margin 0.05",
        )
    return share


@dataclass(frozen=True, kw_only=True)
class Printing:
    """How every verb prints."""

    as_json: JsonOption = False
    debug: DebugOption = False


@dataclass(frozen=True, kw_only=True)
class Kept:
    """Where runs are kept."""

    out: OutOption = DEFAULT_OUT


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Which experiment on which platform, of verbs that take a config."""

    platform: PlatformOption = None
    model: ModelOption = None
    settings: SetOption = None
    gpu: GpuOption = None
    gpus: GpusOption = None
    nodes: NodesOption = None
    cluster: ClusterOption = None

    def asked(self) -> "Asked":
        """With the hosts and the user of the cluster file."""
        from steelyard.configs.choose import asked_of

        return asked_of(self.platform, self.settings, self.gpu, self.gpus, self.model, self.nodes, self.cluster)


@dataclass(frozen=True, kw_only=True)
class Fillable(Selection):
    """The same, of verbs that may ask for what a file leaves open."""

    fill: FillOption = False
