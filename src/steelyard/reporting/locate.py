"""Finds what a name stands for: a run, a fleet, a suite, or a comparison."""

from pathlib import Path

from steelyard import comparison, records
from steelyard.campaign import saved_suites
from steelyard.comparison.files import names_under
from steelyard.errors import InputError
from steelyard.records.fleet import find_fleet
from steelyard.records.reader import listing, located, not_found, run_names
from steelyard.records.suite import find_suite


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
