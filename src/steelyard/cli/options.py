"""The options that several verbs share, so that they are spelt and explained alike."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from steelyard.errors import Exit

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
    typer.Option("--gpus", metavar="N", min=1, help="GPUs of one node (ranks on cpu), in place of the platform's."),
]
ModelOption = Annotated[
    str | None, typer.Option("--model", metavar="MODEL", help="Which of a JSON config's models; lint takes all.")
]
NodesOption = Annotated[
    int | None, typer.Option("--nodes", metavar="N", min=1, help="Machines, in place of the file's own count.")
]
ClusterOption = Annotated[
    Path | None, typer.Option("--cluster", metavar="FILE", help="The cluster's hosts, JSON or YAML, in rank order.")
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
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output.")]
DebugOption = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
DEFAULT_OUT = Path("runs")


def help_unless_asked(context: typer.Context) -> None:
    """A group of verbs without a verb shows its help, which is what was missing: exit 2."""
    if context.invoked_subcommand is None:
        sys.stdout.write(context.get_help() + "\n")
        raise typer.Exit(Exit.INPUT)
