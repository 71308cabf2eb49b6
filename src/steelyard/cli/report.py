"""steelyard report RUN|FLEET|COMPARISON: a page to attach to a ticket."""

from dataclasses import dataclass

from steelyard.cli import printing
from steelyard.cli.options import Kept, argument, option
from steelyard.cli.verb import verb

EXAMPLES = "Examples: steelyard report first | steelyard report runs/comparisons/ID --to html,md -o weighed"
_NAME = "A run, a fleet or a comparison: its directory, or its name under --out."


@dataclass(frozen=True, kw_only=True)
class ReportOptions(Kept):
    name: str = argument("RUN|FLEET|COMPARISON", _NAME)
    to: str | None = option("--to FORMATS", "html (unless -o ends otherwise), md, or both.")
    output: str | None = option("-o --output PATH", "A file, or a directory to write report.* into.")


@verb
def report(options: ReportOptions) -> None:
    """Write the report of a run, a fleet or a comparison; by default into its directory."""
    from steelyard import api

    files = api.report(options.name, to=options.to, output=options.output, out=options.out)
    if options.as_json:
        printing.show_json({"files": [str(path.resolve()) for path in files]})
    else:
        for path in files:
            printing.say(f"wrote {path}")
