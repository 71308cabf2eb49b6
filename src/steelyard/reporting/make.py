"""Writes the report of what a name stands for, and the bundle of it."""

from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import TypedDict, Unpack

from steelyard.reporting import SUFFIXES, check_place, formats_of, write_report
from steelyard.reporting.bundle import Observe
from steelyard.reporting.bundle_writer import write_bundle
from steelyard.reporting.documents import read
from steelyard.reporting.figures import forms_of
from steelyard.reporting.locate import locate
from steelyard.reporting.rendering import STEM, Asked, rendered


class Rendering(TypedDict, total=False):
    """How to write a report, as the command line takes it."""

    to: str | None
    figures: str | None
    output: str | PathLike[str] | None
    bundle: str | PathLike[str] | None
    """A zip that gets the report and its records. Without `output`, nothing else is written."""
    observe: Observe
    notice: Callable[[str], None]
    """Called with what the bundle lacks."""


def write_reports(name: str, out: Path, **how: Unpack[Rendering]) -> list[Path]:
    """Write the report of a run, a fleet or a comparison in each format; nothing if one file cannot be written."""
    output, bundle = (None if path is None else str(path) for path in (how.get("output"), how.get("bundle")))
    asked = Asked(formats_of(how.get("to"), output), forms_of(how.get("figures")))
    kind, directory = locate(name, out)
    written = []
    if bundle is not None:
        made = write_bundle(Path(bundle), kind, directory, asked, how.get("observe", lambda stage, count: None))
        if (notice := how.get("notice")) is not None:
            for text in made.removed:
                notice(text)
        written.append(Path(bundle))
    if bundle is None or output is not None:
        written += _write(kind, directory, asked, output)
    return written


def _write(kind: str, directory: Path, asked: Asked, output: str | None) -> list[Path]:
    document = read(kind, directory, linked=output is None)
    folder, stem = _place(output, document.directory)
    files = [(folder / file.name, file.mark, file.content()) for file in rendered(document.page, asked, stem)]
    if output is not None and output.endswith("/") and folder.parent.is_dir() and not folder.exists():
        folder.mkdir()
    for path, mark, _ in files:
        check_place(path, mark)
    for path, mark, content in files:
        write_report(path, content, mark)
    return [path for path, *_ in files]


def _place(output: str | None, directory: Path) -> tuple[Path, str]:
    """The folder of the files and how their names begin: `-o FILE`, or report.* in `-o DIR` or next to the run."""
    if output is None or output.endswith("/") or Path(output).is_dir():
        return (Path(output) if output else directory), STEM
    path = Path(output)
    return path.parent, path.stem if path.suffix in SUFFIXES else path.name
