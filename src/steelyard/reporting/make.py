"""Makes the report of a run, a fleet or a comparison by its name and writes its files."""

import shlex
from collections.abc import Sequence
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
from steelyard.records.suite import Suite, find_suite, the_suite
from steelyard.reporting import SUFFIXES, Format, check_place, formats_of, write_report
from steelyard.reporting.comparison_page import comparison_page
from steelyard.reporting.figures import forms_of
from steelyard.reporting.fleet_page import fleet_page
from steelyard.reporting.paper.cells import cells_of_comparison, cells_of_suites
from steelyard.reporting.paper.run import judged_cells, judged_run
from steelyard.reporting.paper.texts import read_texts
from steelyard.reporting.rendering import STEM, Asked, Report, rendered
from steelyard.reporting.run_page import run_page
from steelyard.reporting.suite_comparison_page import suite_comparison_page
from steelyard.reporting.suite_page import suite_page


class Rendering(TypedDict, total=False):
    """How to write a report, as the command line takes it."""

    to: str | None
    figures: str | None
    text: str | PathLike[str] | None
    output: str | PathLike[str] | None
    target: str | None
    """The runs of a ladder's target, in place of those that the ladder names."""


def write_reports(name: str, out: Path, **how: Unpack[Rendering]) -> list[Path]:
    """Write the report of a run, a fleet or a comparison in each format; nothing if one file cannot be written."""
    output, text = (None if path is None else str(path) for path in (how.get("output"), how.get("text")))
    formats = formats_of(how.get("to"), output)
    asked = Asked(formats, forms_of(how.get("figures")), {} if text is None else _texts(text, formats))
    report = report_of(name, out, linked=output is None, target=how.get("target"))
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


def report_of(name: str, out: Path, linked: bool, target: str | None = None) -> Report:
    """The report of what a name stands for; `linked`: its page is written next to it."""
    if target is not None:
        return _of_ladder(the_suite("RUN|FLEET|COMPARISON", name, out), linked, target, out)
    if (of_suites := saved_suites.find(name, out)) is not None:
        return _of_suites(of_suites)
    if (suite := find_suite(name, out)) is not None:
        return _of_suite(suite, linked)
    directory = comparison.find(name, out)
    if directory is None and (fleet := find_fleet(name, out)) is not None:
        return Report(fleet.directory, fleet_page(judge_fleet(fleet, _as_last_judged), linked))
    if directory is None:
        try:
            run = records.find(name, out)
        except InputError as missing:
            if missing.key != "RUN" or missing.value != name or located(name, out) is not None:
                raise
            if (of_suites := saved_suites.find(name, out, without_time=True)) is not None:
                return _of_suites(of_suites)
            directory = comparison.find(name, out, without_time=True)
        else:
            return _of_run(run)
    if directory is not None:
        made = weigh_again(directory)
        page = comparison_page(made)
        return Report(directory, page, lambda: cells_of_comparison(made, page))
    expected = "a directory with run.json, fleet.json or comparison.json"
    details = {"key": "RUN|FLEET|COMPARISON", "expected": expected, "next": listing(out)}
    raise not_found("Run, fleet or comparison", name, [*run_names(out), *names_under(out)], out, **details)


def _of_run(run: Run) -> Report:
    subject = _as_last_judged(run)
    judged = verdict.judge(subject)
    page = run_page(subject, judged)
    return Report(run.directory, page, lambda: judged_run(subject, judged, page))


def _of_ladder(suite: Suite, linked: bool, target: str, out: Path) -> Report:
    if suite.manifest.ladder is None:
        problem, expected = f"{suite.directory} is not a ladder, so --target has no effect", "a ladder"
        fix = f"steelyard compare {target} {suite.directory}"
        raise InputError(problem, key="--target", value=target, expected=expected, next=fix)
    return _of_suite(suite, linked, comparison.load_runs("--target", [target], out))


def _of_suite(suite: Suite, linked: bool, target: Sequence[Run] | None = None) -> Report:
    judged = judge_suite(suite, _as_last_judged)
    page = suite_page(judged, linked, target)
    return Report(suite.directory, page, lambda: judged_cells(judged, page, _as_last_judged))


def _of_suites(directory: Path) -> Report:
    made = saved_suites.compare_again(directory)
    page = suite_comparison_page(made)
    return Report(directory, page, lambda: cells_of_suites(made, page))


def _as_last_judged(run: Run) -> verdict.Subject:
    """A run with the thresholds and the window of its last check."""
    saved = verdict.saved(run.directory) or {"thresholds": (), "warmup_steps": 0}
    return verdict.read_subject(run, saved["thresholds"], saved["warmup_steps"])
