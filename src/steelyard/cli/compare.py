"""steelyard compare TARGET BASELINE: what is comparable, and how large the difference is."""

from dataclasses import dataclass
from pathlib import Path

from steelyard.cli import printing
from steelyard.cli.options import MARGIN, QUIET, VERBOSE, WARMUP, Kept, argument, examples, option
from steelyard.cli.verb import verb

EXAMPLES = examples(
    "steelyard compare mi300x h100",
    "steelyard compare a1,a2,a3 b1,b2,b3 --for throughput,memory",
    "steelyard compare mi300x h100 --for convergence -v",
    'steelyard compare mi300x h100 --accept data.path="one corpus"',
    "steelyard compare mi300x h100 --assume target:training.sequence_length=8192",
)
_SIDE = "A run, a comma-separated list of runs, or a directory of runs."


@dataclass(frozen=True, kw_only=True)
class CompareOptions(Kept):
    target: str = argument("TARGET", _SIDE)
    baseline: str = argument("BASELINE", "The same, for the side to compare with.")
    metrics: str = option("--for METRICS", "One or more of throughput, memory, flops, convergence.", "throughput")
    mode: str | None = option("--mode best|matched", "matched: refuse for every caveat, except those accepted.")
    margin: str | None = option(*MARGIN)
    accept: list[str] | None = option(
        "--accept KEY[=REASON]", "Take a difference or an unknown as a caveat, with your reason; may be repeated."
    )
    assume: list[str] | None = option(
        "--assume SIDE:KEY=VALUE", "Supply a setting that target, baseline or both do not record; may be repeated."
    )
    prices: Path | None = option("--prices FILE", "Prices per GPU hour: {h100: 2.5, mi300x: 2.0}.")
    target_loss: float | None = option("--target-loss LOSS", "Also compare the tokens each side needs to this loss.")
    warmup_steps: int = option(*WARMUP, 0, min=0)
    name: str | None = option("--name NAME", "Name of the saved comparison.")
    verbose: bool = option(*VERBOSE)
    quiet: bool = option(*QUIET)


@verb
def compare(options: CompareOptions) -> int:
    """Compare target runs with baseline runs: which is faster, by how much, and whether they converge alike.

    Exit status: 0 decided, 1 convergence not equivalent, 4 not comparable, 5 undecided, as with one run per side.
    """
    from steelyard import api
    from steelyard.cli.comparison import show
    from steelyard.comparison.expectations import expectations
    from steelyard.comparison.next_step import next_step
    from steelyard.comparison.remedies import remedies
    from steelyard.comparison.time_to_loss import read_prices

    made = api.compare(
        options.target,
        options.baseline,
        metrics=options.metrics,
        mode=options.mode,
        margin=options.margin,
        warmup_steps=options.warmup_steps,
        accept=options.accept or [],
        assume=options.assume or [],
        prices=read_prices(options.prices) if options.prices else {},
        target_loss=options.target_loss,
        out=options.out,
        name=options.name,
    )
    if options.as_json:
        step = next_step(made)
        document = {**made.document(made.directory), "next": step.document() if step else None}
        document["remedies"] = [remedy.document() for remedy in remedies(made)]
        printing.show_json({**document, "expectations": [reason.document() for reason in expectations(made)]})
    else:
        show(made, options.verbose, options.quiet)
    return made.exit
