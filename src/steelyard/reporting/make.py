"""Makes the report of a run, a fleet or a comparison by its name and writes its files."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TypedDict, Unpack

from steelyard import comparison, records
from steelyard.campaign import saved_suites
from steelyard.comparison.files import names_under
from steelyard.errors import InputError
from steelyard.records.fleet import find_fleet
from steelyard.records.reader import listing, located, not_found, run_names
from steelyard.records.suite import find_suite
from steelyard.records.writer import numbered
from steelyard.reporting import SUFFIXES, Format, check_place, encoded, formats_of, write_report
from steelyard.reporting.documents import kind_of
from steelyard.reporting.figures import MARK as FIGURE_MARK
from steelyard.reporting.figures import Form, draw, figure_name, forms_of
from steelyard.reporting.page import Page

STEM = "report"


@dataclass(frozen=True, slots=True)
class Asked:
    """What to make of a report."""

    formats: Sequence[Format]
    figures: Sequence[Form] = ()
    """Forms in which each plot is a file of its own."""


@dataclass(frozen=True, slots=True)
class File:
    """A file of a report, made when it is asked for."""

    name: str
    mark: str
    content: Callable[[], bytes]


class Rendering(TypedDict, total=False):
    """How to write a report, as the command line takes it."""

    to: str | None
    figures: str | None
    output: str | PathLike[str] | None


def write_reports(name: str, out: Path, **how: Unpack[Rendering]) -> list[Path]:
    """Write the report of a run, a fleet or a comparison in each format; nothing if one file cannot be written."""
    asked, output = asked_of(how), _output_of(how)
    kind, directory = locate(name, out)
    document = kind_of(kind).read(directory, linked=output is None)
    folder, stem = _place(output, document.directory)
    files = [(folder / file.name, file.mark, file.content()) for file in rendered(document.page, asked, stem)]
    if output is not None and output.endswith("/") and folder.parent.is_dir() and not folder.exists():
        folder.mkdir()
    for path, mark, _ in files:
        check_place(path, mark)
    for path, mark, content in files:
        write_report(path, content, mark)
    return [path for path, *_ in files]


def asked_of(how: Rendering) -> Asked:
    return Asked(formats_of(how.get("to"), _output_of(how)), forms_of(how.get("figures")))


def _output_of(how: Rendering) -> str | None:
    return None if how.get("output") is None else str(how["output"])


def _place(output: str | None, directory: Path) -> tuple[Path, str]:
    """The folder of the files and how their names begin: `-o FILE`, or report.* in `-o DIR` or next to the run."""
    if output is None or output.endswith("/") or Path(output).is_dir():
        return (Path(output) if output else directory), STEM
    path = Path(output)
    return path.parent, path.stem if path.suffix in SUFFIXES else path.name


def rendered(page: Page, asked: Asked, stem: str = STEM) -> Iterator[File]:
    """The files of a report, without writing them."""
    for form in asked.formats:
        yield File(f"{stem}{form.SUFFIX}", form.MARK, partial(_encoded, form, page))
    taken: set[str] = set()
    for drawing in page.drawings if asked.figures else ():
        name = next(free for free in numbered(f"{stem}-{figure_name(drawing.title)}") if free not in taken)
        taken.add(name)
        for figure in asked.figures:
            yield File(f"{name}.{figure}", FIGURE_MARK, partial(draw, drawing, figure))


def _encoded(form: Format, page: Page) -> bytes:
    return encoded(form.render(page))


def locate(name: str, out: Path) -> tuple[str, Path]:
    """The kind and the directory of what a name stands for."""
    if (directory := saved_suites.find(name, out)) is not None:
        return "suite_comparison", directory
    if (suite := find_suite(name, out)) is not None:
        return "suite", suite.directory / (suite.platform_place or "")
    if (directory := comparison.find(name, out)) is not None:
        return "comparison", directory
    if (fleet := find_fleet(name, out)) is not None:
        return "fleet", fleet.directory
    try:
        return "run", records.find(name, out).directory
    except InputError as missing:
        if missing.key != "RUN" or missing.value != name or located(name, out) is not None:
            raise
    if (directory := saved_suites.find(name, out, without_time=True)) is not None:
        return "suite_comparison", directory
    if (directory := comparison.find(name, out, without_time=True)) is not None:
        return "comparison", directory
    expected = "a directory with run.json, fleet.json or comparison.json"
    details = {"key": "RUN|FLEET|COMPARISON", "expected": expected, "next": listing(out)}
    raise not_found("Run, fleet or comparison", name, [*run_names(out), *names_under(out)], out, **details)
