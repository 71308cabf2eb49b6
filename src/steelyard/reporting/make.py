"""Makes the report of a run, a fleet or a comparison by its name and writes its files."""

from pathlib import Path

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
from steelyard.reporting import SUFFIXES, Format, check_place, formats_of, write_report
from steelyard.reporting.comparison_page import comparison_page
from steelyard.reporting.fleet_page import fleet_page
from steelyard.reporting.page import Page
from steelyard.reporting.run_page import run_page
from steelyard.reporting.suite_comparison_page import suite_comparison_page
from steelyard.reporting.suite_page import suite_page


def write_reports(name: str, to: str | None, output: str | None, out: Path) -> list[Path]:
    """Write the report of a run, a fleet or a comparison in each format; nothing if one file cannot be written."""
    formats = formats_of(to, output)
    directory, page = _page_of(name, out, linked=output is None)
    files = [(_place(form, output, directory), form) for form in formats]
    if output is not None and output.endswith("/") and Path(output).parent.is_dir() and not Path(output).exists():
        Path(output).mkdir()
    for path, form in files:
        check_place(path, form.MARK)
    for path, form in files:
        write_report(path, form.render(page), form.MARK)
    return [path for path, _ in files]


def _place(form: Format, output: str | None, directory: Path) -> Path:
    """The file of a format: `-o FILE`, or report.* in `-o DIR`, or in the directory of the run."""
    if output is None or output.endswith("/") or Path(output).is_dir():
        return (Path(output) if output else directory) / f"report{form.SUFFIX}"
    path = Path(output)
    return path.with_suffix(form.SUFFIX) if path.suffix in SUFFIXES else path.with_name(path.name + form.SUFFIX)


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
