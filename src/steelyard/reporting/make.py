"""Makes the report of a run, a fleet or a comparison by its name and writes its files."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TypedDict, Unpack

from steelyard import comparison, records, verdict
from steelyard.campaign import saved_suites
from steelyard.campaign.fleet_verdict import judge_fleet
from steelyard.campaign.suite_verdict import judge_suite
from steelyard.comparison.files import names_under, weigh_again
from steelyard.errors import InputError
from steelyard.records import Run
from steelyard.records.fleet import find_fleet
from steelyard.records.reader import listing, located, not_found, run_names
from steelyard.records.suite import find_suite
from steelyard.records.writer import numbered
from steelyard.reporting import SUFFIXES, Format, check_place, encoded, formats_of, write_report
from steelyard.reporting.comparison_page import comparison_page
from steelyard.reporting.figures import INLINE, Form, draw, figure_name, forms_of
from steelyard.reporting.figures import MARK as FIGURE_MARK
from steelyard.reporting.fleet_page import fleet_page
from steelyard.reporting.page import Page
from steelyard.reporting.run_page import run_page
from steelyard.reporting.suite_comparison_page import suite_comparison_page
from steelyard.reporting.suite_page import suite_page

STEM = "report"


@dataclass(frozen=True, slots=True)
class Asked:
    """What to make of a report."""

    formats: Sequence[Format]
    figures: Sequence[Form] = ()
    """Forms in which each plot is a file of its own."""


@dataclass(frozen=True, slots=True)
class File:
    name: str
    content: bytes
    mark: str


class Rendering(TypedDict, total=False):
    """How to write a report, as the command line takes it."""

    to: str | None
    figures: str | None
    output: str | PathLike[str] | None


def write_reports(name: str, out: Path, **how: Unpack[Rendering]) -> list[Path]:
    """Write the report of a run, a fleet or a comparison in each format; nothing if one file cannot be written."""
    output = None if how.get("output") is None else str(how["output"])
    asked = Asked(formats_of(how.get("to"), output), forms_of(how.get("figures")))
    directory, page = _page_of(name, out, linked=output is None)
    folder, stem = _place(output, directory)
    files = [(folder / file.name, file) for file in _files(page, asked, stem)]
    if output is not None and output.endswith("/") and folder.parent.is_dir() and not folder.exists():
        folder.mkdir()
    for path, file in files:
        check_place(path, file.mark)
    for path, file in files:
        write_report(path, file.content, file.mark)
    return [path for path, _ in files]


def rendered(name: str, out: Path, asked: Asked, stem: str = STEM) -> dict[str, bytes]:
    """The files of a report by their names, without writing them; links are relative to its directory."""
    _, page = _page_of(name, out, linked=True)
    return {file.name: file.content for file in _files(page, asked, stem)}


def _place(output: str | None, directory: Path) -> tuple[Path, str]:
    """The folder of the files and how their names begin: `-o FILE`, or report.* in `-o DIR` or next to the run."""
    if output is None or output.endswith("/") or Path(output).is_dir():
        return (Path(output) if output else directory), STEM
    path = Path(output)
    return path.parent, path.stem if path.suffix in SUFFIXES else path.name


def _files(page: Page, asked: Asked, stem: str) -> Iterator[File]:
    names = _figure_names(page, stem)
    shown = next((figure for figure in asked.figures if figure in INLINE), None)
    linked = replace(page, images=[f"{name}.{shown}" for name in names]) if shown else page
    for form in asked.formats:
        yield File(f"{stem}{form.SUFFIX}", encoded(form.render(linked)), form.MARK)
    for drawing, name in zip(page.drawings, names, strict=True):
        for figure in asked.figures:
            yield File(f"{name}.{figure}", draw(drawing, figure), FIGURE_MARK)


def _figure_names(page: Page, stem: str) -> list[str]:
    """A file name without ending for each drawing, each once."""
    taken: dict[str, None] = {}
    for drawing in page.drawings:
        name = next(free for free in numbered(f"{stem}-{figure_name(drawing.title)}") if free not in taken)
        taken[name] = None
    return list(taken)


def _page_of(name: str, out: Path, linked: bool) -> tuple[Path, Page]:
    """The directory of a run, a fleet or a comparison, and its page; `linked`: the page is written there."""
    if (of_suites := saved_suites.find(name, out)) is not None:
        return of_suites, suite_comparison_page(saved_suites.compare_again(of_suites))
    if (suite := find_suite(name, out)) is not None:
        return suite.directory, suite_page(judge_suite(suite, _as_last_judged), linked)
    directory = comparison.find(name, out)
    if directory is None and (fleet := find_fleet(name, out)) is not None:
        return fleet.directory, fleet_page(judge_fleet(fleet, _as_last_judged), linked)
    if directory is None:
        try:
            run = records.find(name, out)
        except InputError as missing:
            if missing.key != "RUN" or missing.value != name or located(name, out) is not None:
                raise
            if (of_suites := saved_suites.find(name, out, without_time=True)) is not None:
                return of_suites, suite_comparison_page(saved_suites.compare_again(of_suites))
            directory = comparison.find(name, out, without_time=True)
        else:
            subject = _as_last_judged(run)
            return run.directory, run_page(subject, verdict.judge(subject))
    if directory is not None:
        return directory, comparison_page(weigh_again(directory))
    expected = "a directory with run.json, fleet.json or comparison.json"
    details = {"key": "RUN|FLEET|COMPARISON", "expected": expected, "next": listing(out)}
    raise not_found("Run, fleet or comparison", name, [*run_names(out), *names_under(out)], out, **details)


def _as_last_judged(run: Run) -> verdict.Subject:
    """A run with the thresholds and the window of its last check."""
    saved = verdict.saved(run.directory) or {"thresholds": (), "warmup_steps": 0}
    return verdict.read_subject(run, saved["thresholds"], saved["warmup_steps"])
