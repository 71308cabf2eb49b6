"""steelyard check RUN|FLEET: the verdict of a run, or of the runs of a fleet."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.options import Kept, Printing, WarmupOption
from steelyard.cli.verb import verb

if TYPE_CHECKING:
    from steelyard.verdict import Verdict
    from steelyard.verdict.figures import Figures

EXAMPLES = (
    'Examples: steelyard check first | steelyard check first --threshold "tokens_per_s_per_gpu>=6500" --junit check.xml'
    " | steelyard check nightly/repeat-6 --thresholds learnt.yaml"
)


_UNEVEN = 1.5
"""Times the median, above which the slowest steps are told too: a rate is of all steps, a median of the usual one."""


@dataclass(frozen=True, kw_only=True)
class CheckOptions(Kept, Printing):
    run: Annotated[
        str, typer.Argument(metavar="RUN|FLEET", help="A run or a fleet: its directory, or its name under --out.")
    ]
    thresholds: Annotated[
        list[str] | None,
        typer.Option("--threshold", metavar="BOUND", help='Beside the config\'s, such as "step_time_s<=12".'),
    ] = None
    thresholds_file: Annotated[
        Path | None,
        typer.Option("--thresholds", metavar="FILE", help="The bounds of a file, such as `runs learn -o` writes."),
    ] = None
    warmup_steps: WarmupOption = 0
    junit: Annotated[Path | None, typer.Option("--junit", metavar="FILE", help="Also write JUnit XML.")] = None


@verb
def check(options: CheckOptions) -> int:
    """Judge a run: physics, loss health, thresholds. Ends with 0 if it passes, 1 if it fails, 5 if it is not known."""
    from steelyard import api, verdict
    from steelyard.cli import printing
    from steelyard.cli.inputs import check_thresholds, thresholds_of
    from steelyard.records.fleet import find_fleet
    from steelyard.reporting import junit as junit_format
    from steelyard.reporting.files import check_place, write_report

    bounds = list(options.thresholds or [])
    check_thresholds(bounds)
    if options.thresholds_file is not None:
        bounds += thresholds_of(options.thresholds_file)
    if options.junit is not None:
        check_place(options.junit, junit_format.MARK, "--junit")
    if (fleet := find_fleet(options.run, options.out)) is not None:
        from steelyard.cli.fleet import check_fleet

        return check_fleet(fleet, bounds, options.warmup_steps, options.junit, options.as_json)
    judged = api.check(
        options.run, thresholds=bounds, warmup_steps=options.warmup_steps, not_saved=not_saved, out=options.out
    )
    if options.junit is not None:
        write_report(options.junit, junit_format.render(judged), junit_format.MARK, "--junit")
    if options.as_json:
        printing.show_json(judged.document())
    else:
        show(judged)
        if options.junit is not None:
            printing.say(f"wrote {options.junit}")
        printing.say(f"next: steelyard report {shlex.quote(str(judged.run))}")
    return verdict.EXIT_OF[judged.status]


def not_saved(path: Path, reason: OSError) -> None:
    """A verdict that cannot be kept is still shown."""
    from steelyard.cli import printing

    printing.note(f"warning: {path} cannot be written ({reason.strerror})")


def show(judged: "Verdict") -> None:
    """The findings for a person."""
    from steelyard.cli import printing
    from steelyard.verdict import Status

    printing.say(f"verdict: {judged.status.value.upper()}  {judged.run}")
    names = [*(one.check for one in judged.findings), *(one.check for one in judged.not_applicable)]
    width = max((len(name) for name in names if len(name) <= 24), default=0)
    for finding in judged.by_weight():
        at = finding.evidence
        where = f"  [{at.file}:{at.line}]" if at else ""
        weight = "" if finding.required or finding.status != Status.UNKNOWN else " (not required)"
        message = printing.inert(finding.message)
        printing.say(
            printing.hang(f"  {finding.status.value:<7}  {finding.check:<{width}}  ", f"{message}{weight}{where}")
        )
    for one in judged.not_applicable:
        printing.say(printing.hang(f"  {'n/a':<7}  {one.check:<{width}}  ", printing.inert(one.message)))
    printing.say(printing.hang("  ", f"{_rates(judged.figures)}; on {judged.figures.window.words()}"))


def _rates(figures: "Figures") -> str:
    """What was reached, in a line."""
    rate, time, mfu = figures.tokens_per_s_per_gpu, figures.step_time_s.value, figures.mfu
    words = []
    if rate.value is not None:
        words.append(f"{rate.value:,.1f} tokens/s a GPU{' as reported' if rate.reported else ''}")
    if time is not None:
        slow = figures.step_time_p95_s
        tail = f", p95 {slow:.4g}" if slow is not None and slow > _UNEVEN * time else ""
        words.append(f"{time:.4g} s a step in the median{tail}")
    if mfu.value is not None:
        words.append(f"MFU {100 * mfu.value:.1f} %{' as reported' if mfu.reported else ''}")
    return ", ".join(words) or "no rate is known"
