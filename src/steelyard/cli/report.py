"""steelyard report RUN|FLEET|COMPARISON: a page to attach to a ticket."""

from dataclasses import dataclass
from typing import Annotated

import typer

from steelyard.cli.options import Kept, Printing
from steelyard.cli.verb import verb

EXAMPLES = "Examples: steelyard report first | steelyard report runs/comparisons/ID --to html,md -o weighed"


@dataclass(frozen=True, kw_only=True)
class ReportOptions(Kept, Printing):
    what: Annotated[
        str,
        typer.Argument(
            metavar="RUN|FLEET|COMPARISON",
            help="A run, a fleet or a comparison: its directory, or its name under --out.",
        ),
    ]
    to: Annotated[
        str | None, typer.Option("--to", metavar="FORMATS", help="html (unless -o ends otherwise), md, or both.")
    ] = None
    output: Annotated[
        str | None,
        typer.Option("-o", "--output", metavar="PATH", help="A file, or a directory to write report.* into."),
    ] = None


@verb
def report(options: ReportOptions) -> None:
    """Write the report of a run, a fleet or a comparison; by default into its directory."""
    from steelyard import api
    from steelyard.cli import printing

    files = api.report(options.what, to=options.to, output=options.output, out=options.out)
    if options.as_json:
        printing.show_json({"files": [str(path.resolve()) for path in files]})
    else:
        for path in files:
            printing.say(f"wrote {path}")
