"""steelyard runs family COMPARISONS…: the speedup over several jobs on one pair of platforms."""

from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.options import DEFAULT_OUT, DebugOption, JsonOption, MarginOption, OutOption, margin_share

if TYPE_CHECKING:
    from collections.abc import Iterator

    from steelyard.campaign.family import Family

EXAMPLES = "Examples: steelyard runs family 8b 70b 405b | steelyard runs family 8b 70b --margin 3% --json"


def show_family(
    comparisons: Annotated[
        list[str],
        typer.Argument(metavar="COMPARISONS…", help="Comparisons, a job each: directories, or names under --out."),
    ],
    margin: MarginOption = None,
    out: OutOption = DEFAULT_OUT,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> int:
    """Show the speedup over several jobs, and which of them hold when all are asked at once.

    The speedup is the geometric mean of the comparisons' own. Ends with 0 if it is known between runs, 4 if one of them
    is not comparable, 5 if it is not known: too few runs of one, or too different ones.
    """
    from steelyard.campaign.family import Member, family
    from steelyard.cli import printing
    from steelyard.comparison.files import find_each, weigh_again

    asked = margin_share(margin)
    members = [Member(place, weigh_again(place)) for place in find_each(comparisons, out)]
    found = family(members, asked)
    if as_json:
        printing.show_json(found.document())
    else:
        _show(found)
    return found.exit


def _show(found: "Family") -> None:
    from steelyard.cli import printing

    printing.table([["comparison", "runs", "speedup", "by itself", "in the family"], *_rows(found)])
    for reason in found.reasons:
        printing.say(printing.hang("  ", printing.inert(reason.message)))
    if found.speedup is None:
        printing.say("no speedup over all: to leave one out would be to choose")
        return
    around = ""
    if found.speedup.low is not None and found.speedup.high is not None:
        around = f" [{found.speedup.low:.4f}, {found.speedup.high:.4f}]"
    printing.say(f"speedup over all {found.speedup.value:.4f}{around}  {found.speedup.words}")
    printing.say("  the geometric mean of these jobs; it says nothing of others")
    for note in dict.fromkeys(note.message for member in found.members if member.ratio for note in member.ratio.notes):
        printing.say(printing.hang("  ", printing.inert(note)))


def _rows(found: "Family") -> "Iterator[list[str]]":
    for member, alone, adjusted in zip(found.members, found.alone, found.adjusted, strict=True):
        name, ratio = member.directory.resolve().name, member.ratio
        if ratio is None:
            yield [name, "-", "-", member.status.value.replace("_", " "), "-"]
            continue
        around = f" [{ratio.low:.4f}, {ratio.high:.4f}]" if ratio.low is not None and ratio.high is not None else ""
        runs = f"{ratio.target_runs} and {ratio.baseline_runs}"
        yield [name, runs, f"{ratio.value:.4f}{around}", alone or "-", adjusted or "-"]
