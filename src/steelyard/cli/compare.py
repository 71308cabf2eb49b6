"""steelyard compare TARGET BASELINE: what is comparable, and how large the difference is."""

import shlex
from dataclasses import dataclass
from pathlib import Path

from steelyard.cli import printing
from steelyard.cli.options import MARGIN, QUIET, VERBOSE, WARMUP, Kept, argument, examples, option
from steelyard.cli.verb import verb
from steelyard.errors import InputError

EXAMPLES = examples(
    "steelyard compare mi300x h100",
    "steelyard compare a1,a2,a3 b1,b2,b3 --for throughput,memory",
    "steelyard compare mi300x h100 --for convergence -v",
    'steelyard compare mi300x h100 --accept data.path="one corpus"',
    "steelyard compare mi300x h100 --assume target:training.sequence_length=8192",
)
_SIDE = "A run, a comma-separated list of runs, a directory of runs, or a suite (or SUITE/PLATFORM)."


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

    if _are_suites(options):
        return _compare_suites(options)
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


def _are_suites(options: CompareOptions) -> bool:
    """Whether both sides are suites; a suite and something else are refused."""
    from steelyard.records.suite import find_suite

    suites = {name: find_suite(name, options.out) for name in (options.target, options.baseline)}
    several = {name: suite for name, suite in suites.items() if suite is not None and suite.manifest.axes}
    if not several:
        return False
    if len(several) < len(suites):
        name, suite = next(iter(several.items()))
        other = next(other for other in suites if other != name)
        cell = shlex.quote(str(suite.directory / suite.cells[0].directory))
        complaint, expected = f"{name} is a suite, and {other} is not", "two suites, or two sides of runs"
        fix = f"steelyard compare {cell} {shlex.quote(other)}"
        raise InputError(complaint, key="TARGET", value=name, expected=expected, next=fix)
    return True


def _compare_suites(options: CompareOptions) -> int:
    from steelyard import api
    from steelyard.cli.suite_comparison import show

    for name, value in (("--prices", options.prices), ("--target-loss", options.target_loss)):
        if value is not None:
            complaint, expected = f"{name} is for runs of one job, not for suites", "two cells"
            raise InputError(complaint, key=name, value=str(value), expected=expected, next=f"without {name}")
    made = api.compare_suites(
        options.target,
        options.baseline,
        metrics=options.metrics,
        mode=options.mode,
        margin=options.margin,
        warmup_steps=options.warmup_steps,
        accept=options.accept or [],
        assume=options.assume or [],
        out=options.out,
        name=options.name,
    )
    if options.as_json:
        printing.show_json(made.document())
    else:
        show(made, options.quiet)
    return made.exit
