"""steelyard compare TARGET BASELINE: what is comparable, by how much, with what certainty."""

import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.options import DEFAULT_OUT, DebugOption, JsonOption, OutOption, WarmupOption

if TYPE_CHECKING:
    from steelyard.compare import Comparison, Metric, Ratio
    from steelyard.experiment.experiment import Mode

EXAMPLES = (
    "Examples: steelyard compare mi300x h100 | steelyard compare a1,a2 b1,b2 --for throughput,memory --mode matched"
)
_SIDE = "A run, a comma-separated list of runs, or a directory of runs."


def compare(
    target: Annotated[str, typer.Argument(metavar="TARGET", help=_SIDE)],
    baseline: Annotated[str, typer.Argument(metavar="BASELINE", help="The same, to hold the target against.")],
    asked: Annotated[
        str,
        typer.Option("--for", metavar="METRICS", help="What is asked: throughput, memory, flops, convergence."),
    ] = "throughput",
    mode: Annotated[
        str | None,
        typer.Option("--mode", metavar="best|matched", help="matched: what would qualify a ratio refuses it."),
    ] = None,
    warmup_steps: WarmupOption = 0,
    out: OutOption = DEFAULT_OUT,
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="The comparison's name.")] = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> int:
    """Compare runs. Ends with 4 if what is asked is not comparable, with 5 if it holds of the runs that were made.

    An interval between runs, which 0 would need, is not made yet.
    """
    from steelyard import compare as comparing
    from steelyard.cli import printing

    metrics = _metrics(asked)
    sides = [comparing.load_runs(side, text, out) for side, text in (("TARGET", target), ("BASELINE", baseline))]
    made = comparing.weigh(sides[0], sides[1], metrics, _mode(mode), warmup_steps)
    directory = comparing.save(made, out, name)
    if as_json:
        printing.show_json(made.document(directory))
    else:
        show(made)
        printing.say(f"next: steelyard report {shlex.quote(str(directory))}")
    return made.exit


def _metrics(asked: str) -> "list[Metric]":
    from steelyard.compare import Metric
    from steelyard.errors import InputError

    known = [metric.value for metric in Metric]
    words = [word.strip() for word in asked.split(",")]
    wrong = next((word for word in words if word not in known), None)
    if wrong is not None:
        raise InputError(
            f"--for {asked}: {wrong!r} is no metric",
            key="--for",
            value=asked,
            expected=f"one or more of {', '.join(known)}",
            next="--for throughput",
        )
    return [Metric(word) for word in dict.fromkeys(words)]


def _mode(text: str | None) -> "Mode | None":
    from steelyard.errors import InputError

    match text:
        case None | "best" | "matched":
            return text
    raise InputError(
        f"--mode {text} is no mode", key="--mode", value=text, expected="best or matched", next="--mode best"
    )


def show(made: "Comparison") -> None:
    """The answer first, then why."""
    from steelyard.cli import printing
    from steelyard.compare import NAME_OF, Agreement

    names = [", ".join(verdict.run.name for verdict in side.verdicts) for side in (made.target, made.baseline)]
    printing.say(f"target {names[0]} against baseline {names[1]}")
    said: list[Metric] = []
    for metric, ruling in made.comparable.items():
        asked = " (asked)" if metric in made.asked else ""
        ratio = made.ratios.get(metric)
        figure = f"  {NAME_OF[metric]} {ratio_words(ratio)}" if ratio else ""
        printing.say(f"  {metric.value:<11}  {ruling.status.value.replace('_', ' ')}{asked}{figure}")
        for note in ratio.notes if ratio and metric in made.asked else ():
            printing.say(printing.hang(" " * 15, printing.inert(f"but {note}")))
        if metric not in made.asked:
            continue
        same = next((other for other in said if made.comparable[other].reasons == ruling.reasons), None)
        if same and ruling.reasons:
            printing.say(f"{'':15}as {same.value}")
            continue
        said.append(metric)
        for reason in ruling.reasons:
            printing.say(printing.hang(" " * 15, printing.inert(reason)))
    different = [clause for clause in made.contract if clause.status == Agreement.DIFFERENT]
    free = [clause.dotted for clause in different if not clause.governs]
    if free:
        printing.say(f"  free to differ, and do: {', '.join(free)}")


def ratio_words(ratio: "Ratio") -> str:
    """A ratio, its interval and what may be said of it."""
    around = ""
    if ratio.low is not None and ratio.high is not None:
        around = f" [{ratio.low:.4f}, {ratio.high:.4f}]"
    return f"{ratio.value:.4f}{around}  {ratio.words}"
