"""steelyard demo: the whole story on this machine."""

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.options import DEFAULT_OUT, DebugOption, JsonOption, OutOption
from steelyard.errors import Exit

if TYPE_CHECKING:
    from steelyard.demo import Story
    from steelyard.records import Run
    from steelyard.verdict import Verdict

EXAMPLES = "Examples: steelyard demo | steelyard demo --recorded --out /tmp/demo"


def demo(
    recorded: Annotated[
        bool, typer.Option("--recorded", help="From runs recorded on an H200, in seconds and without torch.")
    ] = False,
    out: OutOption = DEFAULT_OUT,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> int:
    """Train a tiny model three times, judge, compare, and write the report."""
    from steelyard import demo as told
    from steelyard import records
    from steelyard.cli import printing

    prefix = records.stamped("demo")
    runs = told.copy_recorded(out, prefix) if recorded else _train(out, prefix)
    story = told.tell(runs, out, printing.note)
    if as_json:
        printing.show_json(
            {
                "runs": [str(verdict.run.resolve()) for verdict in story.verdicts],
                "comparisons": [str(directory.resolve()) for directory in story.comparisons],
                "report": str(story.report.resolve()),
                "as_told": story.as_told,
            }
        )
    else:
        _tell(story, recorded)
    return Exit.GOOD if story.as_told else Exit.FAILED


def _train(out: Path, prefix: str) -> "list[Run]":
    from steelyard import demo as told
    from steelyard import execute, records
    from steelyard.cli import printing
    from steelyard.cli.inputs import planned
    from steelyard.cli.progress import view
    from steelyard.configs.choose import asked_of
    from steelyard.errors import InfrastructureError, InterruptedByUser
    from steelyard.experiment import packaged
    from steelyard.hardware.catalog import CPU
    from steelyard.hardware.machine import discover

    file = packaged.path(told.CONFIG)
    runs = []
    for number, chapter in enumerate(told.CHAPTERS, start=1):
        made = planned(file, asked_of(settings=list(chapter.settings), gpu=CPU, gpus=1))
        try:
            execute.check(made, discover())
        except InfrastructureError as missing:
            missing.next = f"{missing.next}; or steelyard demo --recorded, which needs no torch"
            raise
        reading = replace(made.case.reading, file=Path(file.name))  # as `steelyard init` writes it
        made = replace(made, case=replace(made.case, resolved=replace(made.case.resolved, reading=reading)))
        writer = execute.new_run(made, out, f"{prefix}-{chapter.name}", ["steelyard", *sys.argv[1:]])
        printing.note(f"run {number} of {len(told.CHAPTERS)}: training {writer.directory}")
        with view(made.case.resolved.experiment.training.steps, None) as observe:
            manifest = execute.execute(made, writer, observe)
        if manifest.status == "interrupted":
            raise InterruptedByUser(
                f"interrupted while {writer.directory} was training; what was recorded is kept",
                next=f"steelyard runs list --out {shlex.quote(str(out))}",
            )
        runs.append(records.load(writer.directory))
    return runs


def _tell(story: "Story", recorded: bool) -> None:
    """The story in a dozen lines, every figure from the documents."""
    from steelyard import demo as told
    from steelyard.cli import printing
    from steelyard.cli.comparison import ratio_words
    from steelyard.comparison import Metric
    from steelyard.comparison.codes import sentence

    what = "Llama 3.1 8B on one H200, as recorded" if recorded else "a tiny Llama on this machine's CPU"
    printing.say(f"Three runs of {what}, each judged against physics, its plan and its loss:")
    names = [chapter.recording if recorded else chapter.name for chapter in told.CHAPTERS]
    for name, verdict in zip(names, story.verdicts, strict=True):
        printing.say(f"  {verdict.status.value:<7}  {name:<11}  {_figures(verdict)}")
        for finding in (*verdict.failed(), *verdict.undecided()):
            printing.say(f"{'':11}{finding.check}: {printing.inert(finding.message)}")

    if any(_unevenness(verdict) > 2 for verdict in story.verdicts):
        printing.say("  Step times were uneven, the slowest in twenty over twice the median: this machine was busy.")

    fair, refused = story.fair.comparable[Metric.THROUGHPUT], story.refused.comparable[Metric.THROUGHPUT]
    printing.say(f"\n{names[1]} against {names[0]}: {fair.status.value}")
    ratio = story.fair.ratios[Metric.THROUGHPUT]
    if ratio:
        printing.say(f"  throughput speedup {ratio_words(ratio)}")
        for note in ratio.notes:
            printing.say(f"  But {note.message}.")
        printing.say(
            "  The same job twice: what is not 1 is noise, so one run a side proves nothing: `compare` ends with 5."
        )

        curves = [side.subjects[0].steps.loss.values.tolist() for side in (story.fair.target, story.fair.baseline)]
        if curves[0] == curves[1]:
            printing.say(f"  Their losses are equal bit for bit at all {len(curves[0])} steps.")

    printing.say(f"\n{names[2]} against {names[0]}: {refused.status.value.replace('_', ' ')}")
    for reason in refused.reasons:
        printing.say(f"  {printing.inert(sentence(reason))}")
    rates = [story.verdicts[at].figures.tokens_per_s_per_gpu.value for at in (2, 0)]
    if rates[0] and rates[1]:
        times = f"Its tokens/s are {rates[0] / rates[1]:.2f} times the other's"
        printing.say(f"  {times}, which says nothing of two different jobs:")
        printing.say("  `compare` gives no ratio and ends with 4.")

    printing.say(f"\nthe report:   {story.report}")
    printing.say(f"the refusal:  {story.comparisons[1] / story.report.name}")
    printing.say(f"a run's own:  {story.verdicts[0].run / story.report.name}")
    printing.say(f"next: open the report in a browser, or steelyard check {shlex.quote(str(story.verdicts[0].run))}")


def _figures(verdict: "Verdict") -> str:
    figures = verdict.figures
    rate, mfu, tokens = figures.tokens_per_s_per_gpu.value, figures.mfu.value, figures.tokens_per_step
    words = [f"{rate:,.0f} tokens/s" if rate else "rate unknown"]
    if mfu:
        words.append(f"MFU {mfu:.1%}")
    words.append(f"{tokens:,} tokens a step" if tokens else "tokens a step unknown")
    return ", ".join(words)


def _unevenness(verdict: "Verdict") -> float:
    p95, median = verdict.figures.step_time_p95_s, verdict.figures.step_time_s.value
    return p95 / median if p95 and median else 1.0
