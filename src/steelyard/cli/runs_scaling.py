"""steelyard runs scaling RUNS…: what is left of a GPU's rate on more nodes."""

from typing import TYPE_CHECKING

from steelyard.cli.options import DEFAULT_OUT, DebugOption, JsonOption, OutOption, WarmupOption
from steelyard.cli.runs_learn import RunsArgument

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.campaign.scaling import Count, Larger, Scaling

EXAMPLES = (
    "Examples: steelyard runs scaling one-node two-nodes four-nodes | steelyard runs scaling a1,a2,a3 b1,b2,b3 --json"
)


def show_scaling(
    runs: RunsArgument,
    warmup_steps: WarmupOption = 0,
    out: OutOption = DEFAULT_OUT,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> int:
    """Show what is left of a GPU's rate on more nodes.

    Efficiency is tokens/s a GPU on each node count over that on the fewest nodes. Ends with 0 if it is known between
    runs, 4 if the runs are not of one job, 5 if it is not known: too few runs, or too different ones.
    """
    from steelyard.campaign.scaling import scaling
    from steelyard.cli import printing
    from steelyard.comparison.files import load_each
    from steelyard.verdict import read_subjects

    found = scaling(read_subjects(load_each("RUNS", runs, out), warmup_steps))
    if as_json:
        printing.show_json(found.document())
    else:
        _show(found)
    return found.exit


def _show(found: "Scaling") -> None:
    from steelyard.cli import printing
    from steelyard.comparison.codes import sentence

    printing.say(f"{found.kind or 'unknown'} scaling, against {found.smallest.side.called}")
    head = ["nodes", "gpus", "runs", "tokens a step", "a GPU", "tokens/s a GPU", "efficiency"]
    first = [*_cells(found.smallest), "1, by definition"]
    printing.table([head, first, *([*_cells(one.count), _efficiency(one)] for one in found.larger)], "  ")
    for one in found.larger:
        for reason in one.ruling.reasons:
            printing.say(printing.hang(f"  {one.count.side.called}: ", printing.inert(sentence(reason)), 4))
    for note in dict.fromkeys(note.message for one in found.larger if one.efficiency for note in one.efficiency.notes):
        printing.say(printing.hang("  ", printing.inert(note)))


def _cells(count: "Count") -> "Sequence[str]":
    from steelyard.comparison.intervals import geometric_mean
    from steelyard.reporting.curves import number

    figures = [subject.figures.tokens_per_s_per_gpu.value for subject in count.side.subjects]
    known = [value for value in figures if value is not None]
    share = count.tokens_per_step_per_gpu
    return [
        str(count.nodes),
        str(count.gpus),
        str(len(figures)),
        "-" if count.tokens_per_step is None else f"{count.tokens_per_step:,}",
        "-" if share is None else f"{share:,.6g}",
        number(geometric_mean(known)) if len(known) == len(figures) else "-",
    ]


def _efficiency(one: "Larger") -> str:
    from steelyard.cli.comparison import ratio_words

    return ratio_words(one.efficiency) if one.efficiency else one.ruling.status.value.replace("_", " ")
