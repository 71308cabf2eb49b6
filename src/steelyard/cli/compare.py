"""steelyard compare TARGET BASELINE: what is comparable, by how much, with what certainty."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.options import Kept, MarginOption, Printing, WarmupOption, margin_share
from steelyard.cli.verb import verb

if TYPE_CHECKING:
    pass

EXAMPLES = (
    "Examples: steelyard compare mi300x h100 | steelyard compare a1,a2 b1,b2 --for throughput,memory --mode matched"
)
_SIDE = "A run, a comma-separated list of runs, or a directory of runs."


@dataclass(frozen=True, kw_only=True)
class CompareOptions(Kept, Printing):
    target: Annotated[str, typer.Argument(metavar="TARGET", help=_SIDE)]
    baseline: Annotated[str, typer.Argument(metavar="BASELINE", help="The same, to hold the target against.")]
    asked: Annotated[
        str,
        typer.Option("--for", metavar="METRICS", help="What is asked: throughput, memory, flops, convergence."),
    ] = "throughput"
    mode: Annotated[
        str | None,
        typer.Option("--mode", metavar="best|matched", help="matched: what would qualify a ratio refuses it."),
    ] = None
    margin: MarginOption = None
    force: Annotated[
        bool, typer.Option("--force", help="Print refused ratios too, under a banner; the status stays 4.")
    ] = False
    prices: Annotated[
        Path | None, typer.Option("--prices", metavar="FILE", help="Prices of GPUs an hour: {h100: 2.5, mi300x: 2.0}.")
    ] = None
    target_loss: Annotated[
        float | None,
        typer.Option(
            "--target-loss", metavar="LOSS", help="Also ask how many tokens the seeds of each side take to it."
        ),
    ] = None
    warmup_steps: WarmupOption = 0
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="The comparison's name.")] = None


@verb
def compare(options: CompareOptions) -> int:
    """Compare runs: what is comparable, how much faster, whether they learn alike, and if not why.

    Ends with 0 if what is asked holds, 1 if the curves are not equivalent, 4 if it is not comparable, 5 if it is not
    known: one run a side, or too few to decide.
    """
    from steelyard import api
    from steelyard.cli import printing
    from steelyard.cli.comparison import show
    from steelyard.comparison.time_to_loss import read_prices

    made = api.compare(
        options.target,
        options.baseline,
        metrics=[word.strip() for word in options.asked.split(",")],
        prices=read_prices(options.prices) if options.prices else {},
        mode=options.mode,
        warmup_steps=options.warmup_steps,
        margin=margin_share(options.margin),
        force=options.force,
        target_loss=options.target_loss,
        out=options.out,
        name=options.name,
    )
    if options.as_json:
        printing.show_json(made.document(made.directory))
    else:
        show(made)
        printing.say(f"next: steelyard report {shlex.quote(str(made.directory))}")
    return made.exit
