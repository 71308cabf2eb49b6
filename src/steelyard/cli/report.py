"""steelyard report RUN|COMPARISON: a page to attach to a ticket."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.options import DEFAULT_OUT, DebugOption, JsonOption, OutOption

if TYPE_CHECKING:
    from steelyard.report import Format
    from steelyard.report.page import Page

EXAMPLES = "Examples: steelyard report first | steelyard report runs/comparisons/ID --to html,md -o weighed"


def report(
    what: Annotated[
        str,
        typer.Argument(metavar="RUN|COMPARISON", help="A run or a comparison: its directory, or its name under --out."),
    ],
    to: Annotated[str, typer.Option("--to", metavar="FORMATS", help="html, md, or both.")] = "html",
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="PATH", help="A file; with several formats, its name without the ending."
        ),
    ] = None,
    out: OutOption = DEFAULT_OUT,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Write the report of a run or of a comparison; by default into its directory."""
    from steelyard import report as reporting
    from steelyard.cli import printing
    from steelyard.report.make import page_of

    formats = [reporting.format_of(name.strip()) for name in dict.fromkeys(to.split(","))]
    directory, page = page_of(what, out)
    files = write(page, formats, output, directory)
    if as_json:
        printing.show_json({"files": [str(path.resolve()) for path in files]})
    else:
        for path in files:
            printing.say(f"wrote {path}")


def write(page: "Page", formats: "list[Format]", output: Path | None, directory: Path) -> list[Path]:
    """Write a page in each format; without a place asked for, as report.* in `directory`."""
    from steelyard.report.files import write_report

    base = directory / "report" if output is None or output.is_dir() else output
    if output is not None and output.is_dir():
        base = output / "report"
    files = []
    for one in formats:
        alone = output is not None and len(formats) == 1 and base.suffix
        path = base if alone else base.with_name(base.name + one.SUFFIX)
        write_report(path, one.render(page), one.MARK)
        files.append(path)
    return files
