"""steelyard demo: the whole story on this machine."""

import shlex
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard.cli import printing
from steelyard.cli.options import Kept, option
from steelyard.cli.verb import verb
from steelyard.errors import Exit, InfrastructureError, InterruptedByUser

if TYPE_CHECKING:
    from steelyard.demo import Story
    from steelyard.records import Run
    from steelyard.verdict import Verdict

EXAMPLES = "Examples: steelyard demo | steelyard demo --recorded --out /tmp/demo"


@dataclass(frozen=True, kw_only=True)
class DemoOptions(Kept):
    recorded: bool = option("--recorded", "From runs recorded on an H200, in seconds and without torch.")


@verb
def demo(options: DemoOptions) -> int:
    """Train a tiny model three times, judge, compare, and write the report."""
    from steelyard import records
    from steelyard.demo import copy_recorded, tell

    prefix = records.stamped("demo")
    runs = copy_recorded(options.out, prefix) if options.recorded else _train(options.out, prefix)
    story = tell(runs, options.out, printing.note)
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
        _tell(story, options.recorded)
    return Exit.GOOD if story.succeeded else Exit.FAILED


def _train(out: Path, prefix: str) -> "list[Run]":
    from steelyard import api, execute
    from steelyard.cli.plan import planned
    from steelyard.cli.run import view_of
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
            missing.next = f"{missing.next}; or steelyard demo --recorded, which needs no torch"
            raise
        reading = replace(made.case.reading, file=Path(file.name))  # as `steelyard init` writes it
        made = replace(made, case=replace(made.case, resolved=replace(made.case.resolved, reading=reading)))
        with view_of(made, f"run {number} of {len(CHAPTERS)}: training") as view:
            command, name = ["steelyard", *sys.argv[1:]], f"{prefix}-{chapter.name}"
            run = api.run(made, begun=view.begin, observe=view, command=command, out=out, name=name)
        if run.status == "interrupted":
            raise InterruptedByUser(
                f"interrupted while {run.directory} was training; what was recorded is kept",
                next=f"steelyard runs list --out {shlex.quote(str(out))}",
            )
        runs.append(run)
    return runs


def _tell(story: "Story", recorded: bool) -> None:
    """The story in a dozen lines, every figure from the documents."""
    from steelyard.cli.comparison import ratio_words
    from steelyard.comparison import Metric
    from steelyard.comparison.codes import sentence
    from steelyard.demo import CHAPTERS

    job = "Llama 3.1 8B on one H200, as recorded" if recorded else "a tiny Llama on this machine's CPU"
    printing.say(f"Three runs of {job}, each judged against physics, its plan and its loss:")
    names = [chapter.recording if recorded else chapter.name for chapter in CHAPTERS]
    for name, verdict in zip(names, story.verdicts, strict=True):
        printing.say(f"  {verdict.status.value:<7}  {name:<11}  {_figures(verdict)}")
        for finding in (*verdict.failed(), *verdict.undecided()):
            printing.say(f"{'':11}{finding.check}: {printing.inert(finding.message)}")
    if any(_unevenness(verdict) > 2 for verdict in story.verdicts):
        printing.say("  Step times were uneven, the slowest in twenty over twice the median: this machine was busy.")
    fair, refused = story.fair.comparable[Metric.THROUGHPUT], story.refused.comparable[Metric.THROUGHPUT]
    printing.say(f"\n{names[1]} against {names[0]}: {fair.status.value}")
    if ratio := story.fair.ratios[Metric.THROUGHPUT]:
        printing.say(f"  throughput speedup {ratio_words(ratio)}")
        for note in ratio.notes:
            printing.say(f"  But {note.message}.")
        noise = "what is not 1 is noise, so one run a side proves nothing: `compare` ends with 5."
        printing.say(f"  The same job twice: {noise}")
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
    places = (*story.comparisons, story.verdicts[0].run)
    for label, place in zip(("\nthe report:  ", "the refusal: ", "a run's own: "), places, strict=True):
        printing.say(f"{label} {place / 'report.html'}")
    printing.say(f"next: open the report in a browser, or steelyard check {shlex.quote(str(story.verdicts[0].run))}")


def _figures(verdict: "Verdict") -> str:
    figures = verdict.figures
    rate, mfu, tokens = figures.tokens_per_s_per_gpu.value, figures.mfu.value, figures.tokens_per_step
    reached = f"{rate:,.0f} tokens/s" if rate else "rate unknown"
    step = f"{tokens:,} tokens a step" if tokens else "tokens a step unknown"
    return ", ".join(filter(None, (reached, f"MFU {mfu:.1%}" if mfu else "", step)))


def _unevenness(verdict: "Verdict") -> float:
    p95, median = verdict.figures.step_time_p95_s, verdict.figures.step_time_s.value
    return p95 / median if p95 and median else 1.0
