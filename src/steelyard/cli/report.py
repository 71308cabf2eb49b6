"""steelyard report RUN|FLEET|COMPARISON: a report to attach to a ticket."""

from dataclasses import dataclass
from pathlib import Path

from steelyard.cli import printing
from steelyard.cli.options import Kept, argument, examples, option
from steelyard.cli.verb import verb

EXAMPLES = examples(
    "steelyard report first",
    "steelyard report first -o first.md",
    "steelyard report runs/comparisons/ID --to html,md -o reports/",
    "steelyard report first --figures svg,pdf",
    "steelyard report runs/comparisons/ID --to latex,pdf,csv -o paper/",
    "steelyard report runs/comparisons/ID --to html,md --bundle evidence.zip",
)
_NAME = "Directory or name of a run, a fleet or a comparison."


@dataclass(frozen=True, kw_only=True)
class ReportOptions(Kept):
    name: str = argument("RUN|FLEET|COMPARISON", _NAME)
    to: str | None = option("--to FORMATS", "Formats: html, md, latex, pdf, csv. Default: extension of -o, else html.")
    figures: str | None = option("--figures FORMS", "Also write every plot as a file of its own: svg, png, pdf.")
    text: Path | None = option("--text FILE", "YAML with your own texts for sections of a paper (latex, pdf).")
    target: str | None = option(
        "--target RUNS", "For a ladder: the runs of its target, if the ladder does not name them."
    )
    output: str | None = option("-o PATH", "Write to this file or directory. Default: next to the run.")
    bundle: Path | None = option("--bundle ZIP", "Write the report and its records to this file, for `verify`.")


@verb
def report(options: ReportOptions) -> None:
    """Write the report of a run, a fleet or a comparison."""
    from steelyard import api
    from steelyard.cli.progress import StageView

    files = api.report(
        options.name,
        to=options.to,
        figures=options.figures,
        text=options.text,
        target=options.target,
        output=options.output,
        bundle=options.bundle,
        observe=StageView(),
        notice=printing.note,
        out=options.out,
    )
    if options.as_json:
        printing.show_json({"files": [str(path.resolve()) for path in files]})
    else:
        for path in files:
            printing.say(f"wrote {path}")
