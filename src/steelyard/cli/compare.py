"""steelyard compare TARGET BASELINE: what is comparable, by how much, with what certainty."""

import shlex
from dataclasses import dataclass
from pathlib import Path

from steelyard.cli import printing
from steelyard.cli.options import MARGIN, WARMUP, Kept, argument, option
from steelyard.cli.verb import verb

EXAMPLES = (
    "Examples: steelyard compare mi300x h100 | steelyard compare a1,a2 b1,b2 --for throughput,memory --mode matched"
)
_SIDE = "A run, a comma-separated list of runs, or a directory of runs."


@dataclass(frozen=True, kw_only=True)
class CompareOptions(Kept):
    target: str = argument("TARGET", _SIDE)
    baseline: str = argument("BASELINE", "The same, to hold the target against.")
    metrics: str = option("--for METRICS", "What is asked: throughput, memory, flops, convergence.", "throughput")
    mode: str | None = option("--mode best|matched", "matched: what would qualify a ratio refuses it.")
    margin: str | None = option(*MARGIN)
    force: bool = option("--force", "Print refused ratios too, under a banner; the status stays 4.")
    prices: Path | None = option("--prices FILE", "Prices of GPUs an hour: {h100: 2.5, mi300x: 2.0}.")
    target_loss: float | None = option(
        "--target-loss LOSS", "Also ask how many tokens the seeds of each side take to it."
    )
    warmup_steps: int = option(*WARMUP, 0, min=0)
    name: str | None = option("--name NAME", "The comparison's name.")


@verb
def compare(options: CompareOptions) -> int:
    """Compare runs: what is comparable, how much faster, whether they learn alike, and if not why.

    Ends with 0 if what is asked holds, 1 if the curves are not equivalent, 4 if it is not comparable, 5 if it is not
    known: one run a side, or too few to decide.
    """
    from steelyard import api
    from steelyard.cli.comparison import show
    from steelyard.comparison.time_to_loss import read_prices

    made = api.compare(
        options.target,
        options.baseline,
        metrics=[word.strip() for word in options.metrics.split(",")],
        mode=options.mode,
        margin=options.margin,
        warmup_steps=options.warmup_steps,
        force=options.force,
        prices=read_prices(options.prices) if options.prices else {},
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
