"""steelyard demo: three runs, their verdicts, two comparisons and all reports."""

import shlex
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard.cli import printing
from steelyard.cli.options import Kept, examples, option
from steelyard.cli.verb import verb
from steelyard.errors import Exit, InfrastructureError, InterruptedByUser

if TYPE_CHECKING:
    from steelyard.demo import Story
    from steelyard.records import Run
    from steelyard.verdict import Verdict

EXAMPLES = examples("steelyard demo", "steelyard demo --recorded --out /tmp/demo")


@dataclass(frozen=True, kw_only=True)
class DemoOptions(Kept):
    recorded: bool = option("--recorded", "Use runs recorded on an H200: takes seconds, needs no torch.")


@verb
def demo(options: DemoOptions) -> int:
    """Train a tiny model three times, check and compare the runs, and write the reports."""
    from steelyard import records
    from steelyard.demo import copy_recorded, make_story

    prefix = records.stamped("demo")
    runs = copy_recorded(options.out, prefix) if options.recorded else _train(options.out, prefix)
    story = make_story(runs, options.out)
    if options.as_json:
        printing.show_json(
            {
                "runs": [str(verdict.run.resolve()) for verdict in story.verdicts],
                "comparisons": [str(directory.resolve()) for directory in story.comparisons],
                "report": str((story.comparisons[0] / "report.html").resolve()),
                "as_told": story.succeeded,
            }
        )
    else:
        _show(story, options.recorded)
    return Exit.GOOD if story.succeeded else Exit.FAILED


def _train(out: Path, prefix: str) -> "list[Run]":
    from steelyard import api, execute
    from steelyard.cli.outcome import view_of
    from steelyard.cli.plan import planned
    from steelyard.demo import CHAPTERS, CONFIG
    from steelyard.experiment import packaged
    from steelyard.hardware.catalog import CPU
    from steelyard.hardware.machine import discover

    file = packaged.path(CONFIG)
    runs = []
    for number, chapter in enumerate(CHAPTERS, start=1):
        made = planned(file, {"settings": chapter.settings, "gpu": CPU, "gpus": 1})
        try:
            execute.check(made, discover())
        except InfrastructureError as missing:
            missing.message, missing.next = f"{missing.message} ({missing.next})", "steelyard demo --recorded"
            raise
        reading = replace(made.case.reading, file=Path(file.name))  # as `steelyard init` writes it
        made = replace(made, case=replace(made.case, resolved=replace(made.case.resolved, reading=reading)))
        with view_of(made, f"run {number} of {len(CHAPTERS)}: training") as view:
            command, name = ["steelyard", *sys.argv[1:]], f"{prefix}-{chapter.name}"
            run = api.run(made, begun=view.begin, observe=view, command=command, out=out, name=name)
        if run.status == "interrupted":
            raise InterruptedByUser(
                f"interrupted while training {run.directory}; recorded steps are kept",
                next=f"steelyard runs list --out {shlex.quote(str(out))}",
            )
        runs.append(run)
    return runs


def _show(story: "Story", recorded: bool) -> None:
    """The story in about twenty lines, every number from the saved documents."""
    from steelyard.comparison import Metric
    from steelyard.comparison.headline import further_reasons, headline

    job = "Llama 3.1 8B on one H200 (recorded)" if recorded else "a tiny Llama on this machine's CPU"
    printing.say(f"Three runs of {job}, each checked:")
    fair, refused = story.fair, story.refused
    names = [fair.baseline.called, fair.target.called, refused.target.called]
    rows = [
        [verdict.status.value, name, *_figures(verdict)] for name, verdict in zip(names, story.verdicts, strict=True)
    ]
    printing.table([["verdict", "run", "tokens/s per GPU", "MFU", "tokens per step"], *rows], "  ")
    for name, verdict in zip(names, story.verdicts, strict=True):
        for finding in (*verdict.failed(), *verdict.undecided()):
            printing.item("  ", f"{name}: {finding.check}: {finding.message}")
    if any(_unevenness(verdict) > 2 for verdict in story.verdicts):
        printing.say("  This machine was busy: 5% of the steps took more than twice the median time.")

    printing.say("\nThe same job twice:")
    printing.item("  ", headline(fair))
    for note in (note for ratio in [fair.ratios[Metric.THROUGHPUT]] if ratio for note in ratio.notes):
        printing.item("  ", f"caveat: {note.message}")
    curves = [side.subjects[0].steps.loss.values.tolist() for side in fair.sides]
    if curves[0] == curves[1]:
        printing.say(f"  Their losses are identical at all {len(curves[0])} steps.")
    printing.say(f"  steelyard compare exits with {fair.exit.value}: undecided.")

    printing.say("\nAnother batch size:")
    printing.item("  ", headline(refused))
    for reason in further_reasons(refused)[0]:
        printing.item("  ", reason.message)
    printing.say(f"  steelyard compare gives no speedup and exits with {refused.exit.value}: not comparable.")

    printing.say("\nreports, to open in a browser:")
    for place in story.comparisons:
        printing.say(f"  {place / 'report.html'}")
    printing.say(f"next: steelyard check {shlex.quote(str(story.verdicts[0].run))}")


def _figures(verdict: "Verdict") -> list[str]:
    figures = verdict.figures
    rate, mfu, tokens = figures.tokens_per_s_per_gpu.value, figures.mfu.value, figures.tokens_per_step
    return [
        f"{rate:,.0f}" if rate else "unknown",
        f"{mfu:.1%}" if mfu else "-",
        f"{tokens:,}" if tokens else "unknown",
    ]


def _unevenness(verdict: "Verdict") -> float:
    p95, median = verdict.figures.step_time_p95_s, verdict.figures.step_time_s.value
    return p95 / median if p95 and median else 1.0
