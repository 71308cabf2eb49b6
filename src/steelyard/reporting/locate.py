"""Finds what a name stands for: a run, a fleet, a suite, or a comparison."""

from pathlib import Path

from steelyard import comparison, records
from steelyard.campaign import saved_suites
from steelyard.comparison.files import names_under
from steelyard.errors import InputError
from steelyard.records.fleet import find_fleet
from steelyard.records.reader import listing, located, not_found, run_names
from steelyard.records.suite import find_suite, the_suite
from steelyard.reporting.documents import Topic


def locate(name: str, out: Path, target: str | None = None) -> Topic:
    """What a name stands for; `target` are the runs of a ladder's target."""
    if target is not None:
        return _ladder(name, out, target)
    if (directory := saved_suites.find(name, out)) is not None:
        return Topic("suite_comparison", directory)
    if (suite := find_suite(name, out)) is not None:
        return Topic("suite", suite.directory / (suite.platform_place or ""))
    if (directory := comparison.find(name, out)) is not None:
        return Topic("comparison", directory)
    if (fleet := find_fleet(name, out)) is not None:
        return Topic("fleet", fleet.directory)
    try:
        return Topic("run", records.find(name, out).directory)
    except InputError as missing:
        if missing.key != "RUN" or missing.value != name or located(name, out) is not None:
            raise
    if (directory := saved_suites.find(name, out, without_time=True)) is not None:
        return Topic("suite_comparison", directory)
    if (directory := comparison.find(name, out, without_time=True)) is not None:
        return Topic("comparison", directory)
    expected = "a directory with run.json, fleet.json or comparison.json"
    details = {"key": "RUN|FLEET|COMPARISON", "expected": expected, "next": listing(out)}
    raise not_found("Run, fleet or comparison", name, [*run_names(out), *names_under(out)], out, **details)


def _ladder(name: str, out: Path, target: str) -> Topic:
    suite = the_suite("RUN|FLEET|COMPARISON", name, out)
    if suite.manifest.ladder is None:
        problem, expected = f"{suite.directory} is not a ladder, so --target has no effect", "a ladder"
        fix = f"steelyard compare {target} {suite.directory}"
        raise InputError(problem, key="--target", value=target, expected=expected, next=fix)
    return Topic("suite", suite.directory, tuple(comparison.load_runs("--target", [target], out)))
