"""steelyard report RUN|FLEET|COMPARISON: a page to attach to a ticket."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.options import Kept, Printing
from steelyard.cli.verb import verb

if TYPE_CHECKING:
    from steelyard.reporting import Format

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
    from steelyard import reporting
    from steelyard.cli import printing
    from steelyard.reporting.files import check_place, write_report
    from steelyard.reporting.make import page_of

    formats = reporting.formats_of(options.to, options.output)
    directory, page = page_of(options.what, options.out, linked=options.output is None)
    files = [(_place(one, options.output, directory), one) for one in formats]
    if (
        options.output is not None
        and options.output.endswith("/")
        and Path(options.output).parent.is_dir()
        and not Path(options.output).exists()
    ):
        Path(options.output).mkdir()
    for path, one in files:  # all of them before the first is written
        check_place(path, one.MARK)
    for path, one in files:
        write_report(path, one.render(page), one.MARK)
    if options.as_json:
        printing.show_json({"files": [str(path.resolve()) for path, _ in files]})
    else:
        for path, _ in files:
            printing.say(f"wrote {path}")


def _place(one: "Format", output: str | None, directory: Path) -> Path:
    """A file of the format: as asked, or report.* in the directory asked for, or beside what is reported on."""
    if output is None or output.endswith("/") or Path(output).is_dir():
        return (Path(output) if output else directory) / f"report{one.SUFFIX}"
    from steelyard.reporting import SUFFIXES

    path = Path(output)
    return path.with_suffix(one.SUFFIX) if path.suffix in SUFFIXES else path.with_name(path.name + one.SUFFIX)
