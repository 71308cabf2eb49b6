"""From a name on the command line to the page of what it names, and to its files."""

from pathlib import Path

from steelyard import comparison, records, verdict
from steelyard.campaign.fleet_verdict import judge_fleet
from steelyard.comparison.files import weigh_again
from steelyard.errors import InputError
from steelyard.records import Run
from steelyard.records.fleet import find_fleet
from steelyard.records.reader import located
from steelyard.reporting import SUFFIXES, Format, check_place, formats_of, write_report
from steelyard.reporting.comparison_page import comparison_page
from steelyard.reporting.fleet_page import fleet_page
from steelyard.reporting.page import Page
from steelyard.reporting.run_page import run_page


def write_reports(name: str, to: str | None, output: str | None, out: Path) -> list[Path]:
    """Write the report of a run, a fleet or a comparison in each format asked for; nothing if one place is taken."""
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
    """A file of the format: as asked, or report.* in the directory asked for, or in that of what is reported on."""
    if output is None or output.endswith("/") or Path(output).is_dir():
        return (Path(output) if output else directory) / f"report{form.SUFFIX}"
    path = Path(output)
    return path.with_suffix(form.SUFFIX) if path.suffix in SUFFIXES else path.with_name(path.name + form.SUFFIX)


def _page_of(name: str, out: Path, linked: bool) -> tuple[Path, Page]:
    """The directory of a run, a fleet or a comparison, and its page; `linked` where it will lie in that directory."""
    directory = comparison.find(name, out)
    if directory is None and (fleet := find_fleet(name, out)) is not None:
        return fleet.directory, fleet_page(judge_fleet(fleet, _as_last_judged), linked)
    if directory is None:
        try:
            run = records.find(name, out)
        except InputError as missing:
            if missing.key != "RUN" or missing.value != name or located(name, out) is not None:
                raise
            directory = comparison.find(name, out, without_time=True)
        else:
            subject = _as_last_judged(run)
            return run.directory, run_page(subject, verdict.judge(subject))
    if directory is not None:
        return directory, comparison_page(weigh_again(directory))
    complaint = f"{name!r} is neither a run, a fleet nor a comparison, as a path or under {out}"
    expected = "a directory with run.json, fleet.json or comparison.json"
    way_on = f"steelyard runs list --out {out}, or ls {out}/comparisons"
    raise InputError(complaint, key="RUN|FLEET|COMPARISON", value=name, expected=expected, next=way_on)


def _as_last_judged(run: Run) -> verdict.Subject:
    """A run as its last check judged it: by the same bounds, on the same window."""
    saved = verdict.saved(run.directory) or {"thresholds": (), "warmup_steps": 0}
    return verdict.read_subject(run, saved["thresholds"], saved["warmup_steps"])
