"""Writes the report of what a name stands for, and the bundle of it."""

import shlex
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import TypedDict, Unpack

from steelyard.errors import InputError
from steelyard.reporting import SUFFIXES, Format, check_place, formats_of, write_report
from steelyard.reporting.bundle import Observe
from steelyard.reporting.bundle_writer import write_bundle
from steelyard.reporting.documents import Topic, read
from steelyard.reporting.figures import forms_of
from steelyard.reporting.locate import locate
from steelyard.reporting.paper.texts import read_texts
from steelyard.reporting.rendering import STEM, Asked, Report, rendered


class Rendering(TypedDict, total=False):
    """How to write a report, as the command line takes it."""

    to: str | None
    figures: str | None
    text: str | PathLike[str] | None
    output: str | PathLike[str] | None
    target: str | None
    """The runs of a ladder's target, in place of those that the ladder names."""
    bundle: str | PathLike[str] | None
    """A zip that gets the report and its records. Without `output`, nothing else is written."""
    observe: Observe
    notice: Callable[[str], None]
    """Called with what the bundle lacks."""


def write_reports(name: str, out: Path, **how: Unpack[Rendering]) -> list[Path]:
    """Write the report of a run, a fleet or a comparison in each format; nothing if one file cannot be written."""
    output, text = (None if path is None else str(path) for path in (how.get("output"), how.get("text")))
    formats = formats_of(how.get("to"), output)
    asked = Asked(formats, forms_of(how.get("figures")), {} if text is None else _texts(text, formats))
    topic, written = locate(name, out, how.get("target")), list[Path]()
    if (bundle := how.get("bundle")) is not None:
        made = write_bundle(Path(bundle), topic, asked, how.get("observe", lambda stage, count: None))
        if (notice := how.get("notice")) is not None:
            for removed in made.removed:
                notice(removed)
        written.append(Path(bundle))
    return written if bundle is not None and output is None else [*written, *_write(topic, asked, output)]


def report_of(name: str, out: Path, linked: bool, target: str | None = None) -> Report:
    """The report of what a name stands for; `linked`: its page is written next to it."""
    return read(locate(name, out, target), linked).report


def _write(topic: Topic, asked: Asked, output: str | None) -> list[Path]:
    report = read(topic, linked=output is None).report
    folder, stem = _place(output, report.directory)
    files = [(folder / file.name, file.mark, file.content()) for file in rendered(report, asked, stem)]
    if output is not None and output.endswith("/") and folder.parent.is_dir() and not folder.exists():
        folder.mkdir()
    for path, mark, _ in files:
        check_place(path, mark)
    for path, mark, content in files:
        write_report(path, content, mark)
    return [path for path, *_ in files]


def _texts(path: str, formats: list[Format]) -> dict[str, str]:
    if all(form.OF != "paper" for form in formats):
        complaint, expected = "--text changes the texts of a paper", "--to latex or --to pdf"
        raise InputError(
            complaint, key="--text", value=path, expected=expected, next=f"--to pdf --text {shlex.quote(path)}"
        )
    return read_texts(Path(path))


def _place(output: str | None, directory: Path) -> tuple[Path, str]:
    """The folder of the files and how their names begin: `-o FILE`, or report.* in `-o DIR` or next to the run."""
    if output is None or output.endswith("/") or Path(output).is_dir():
        return (Path(output) if output else directory), STEM
    path = Path(output)
    return path.parent, path.stem if path.suffix in SUFFIXES else path.name
