"""Finds what is left to do of repeats, a suite or a fleet, and refuses to add runs of other settings."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from steelyard import verdict
from steelyard.campaign import CampaignRequest
from steelyard.errors import InputError
from steelyard.execute import manifest_of
from steelyard.experiment.cells import Cell, Scalar
from steelyard.experiment.problems import bare, plain, shown, spelt
from steelyard.planning.make import Planned
from steelyard.records import Run, RunManifest
from steelyard.records.fleet import EARLIER, directory_below
from steelyard.records.reader import run_not_found
from steelyard.records.suite import Suite, SuiteCell, find_suite
from steelyard.records.writer import numbered

RESUME = "--resume"


def check_no_name(request: CampaignRequest) -> None:
    """Refuse --name with --resume."""
    if request.name is not None:
        message = f"--name is for a new directory; {RESUME} uses an existing one"
        raise InputError(message, key="--name", value=request.name, next="the same command without --name")


def find_series(name: str, request: CampaignRequest) -> Suite:
    """The suite or the repeats to resume."""
    check_no_name(request)
    suite = find_suite(name, request.out)
    if suite is None or suite.platform is not None:
        raise run_not_found(name, request.out, RESUME, "a suite, repeats or a fleet")
    return suite


def matched(suite: Suite, axes: Sequence[str], cells: Sequence[Cell], runs: Sequence[str]) -> list[SuiteCell]:
    """The cell of the suite for each of these; InputError naming the difference if it has other cells or runs."""
    directory, earlier = suite.directory, {_identity(cell.values): cell for cell in suite.manifest.cells}
    if bool(axes) != bool(suite.manifest.axes):
        has, asked = ("repeats of one job", "a suite") if axes else ("a suite", "repeats of one job")
        raise _refused(f"{directory} has {has}, not {asked}", "command", expected=has)
    _check_same(directory, "axes", sorted(axes), sorted(suite.manifest.axes))
    for axis in dict.fromkeys(axis for cell in cells for axis in cell.by_axis):
        before = {repr(cell.values.get(axis)): cell.values.get(axis) for cell in suite.manifest.cells}
        now = {repr(cell.by_axis.get(axis)): cell.by_axis.get(axis) for cell in cells}
        if now.keys() != before.keys():
            raise _differs(directory, axis, [*now.values()], [*before.values()])
    for cell in cells:
        if (recorded := earlier.get(_identity(cell.by_axis))) is None:
            raise _refused(f"{directory} does not have the cell {cell.words}", "cells", expected="its own cells")
        _check_same(directory, "runs", list(runs), recorded.runs)
    _check_same(directory, "cells", len(cells), len(earlier))
    return [earlier[_identity(cell.by_axis)] for cell in cells]


def _identity(values: Mapping[str, Scalar]) -> frozenset[tuple[str, str]]:
    return frozenset((axis, repr(value)) for axis, value in values.items())


def check_same_experiment(planned: Planned, run: Run, directory: Path) -> None:
    """Refuse to add to a directory whose runs have other settings, or are of another platform."""
    new, old = (dict(_stated(manifest)) for manifest in (manifest_of(planned.case, []), run.manifest))
    if new.get("data.fingerprint") is None:  # computed when a run is created
        old.pop("data.fingerprint", None)
        new.pop("data.fingerprint", None)
    for key in new | old:
        _check_same(directory, key, new.get(key), old.get(key))


def _stated(manifest: RunManifest) -> Iterator[tuple[str, Any]]:
    yield "platform.framework", manifest.framework
    for key in ("name", "gpu_name", "nodes", "gpus_per_node"):
        yield f"platform.{key.removesuffix('_name')}", getattr(manifest.platform, key)
    yield from manifest.experiment.leaves()


def _check_same(directory: Path, key: str, now: Any, before: Any) -> None:
    if now != before:
        raise _differs(directory, key, now, before)


def _differs(directory: Path, key: str, now: Any, before: Any) -> InputError:
    return _refused(f"{key} is {_words(now)}, but {_words(before)} in {directory}", key, plain(now), _words(before))


def _refused(problem: str, key: str, value: Any = None, expected: str | None = None) -> InputError:
    fix = f"the same command without {RESUME}, for a new directory"
    return InputError(problem, key=key, value=value, expected=expected, next=fix)


def _words(value: Any) -> str:
    return shown(value) if isinstance(value, list) else bare(spelt(value))


def is_result(run: Run) -> bool:
    """Whether a run has come to a result that stands: it completed and did not fail, or ran out of memory."""
    return is_oom(run) or (run.status == "completed" and verdict.word_of(run) != "fail")


def is_oom(run: Run) -> bool:
    failure = run.manifest.failure
    return failure is not None and failure.kind == "oom"


def set_aside(suite: Suite, cell: SuiteCell, name: str) -> None:
    """Move the earlier run of a turn to a directory next to it, so that its name is free and its record is kept."""
    place = directory_below(suite.directory, cell.path_of(name))
    if not os.path.lexists(place):
        return
    earlier = directory_below(suite.directory, cell.path_of(EARLIER))
    earlier.mkdir(exist_ok=True)
    free = (earlier / each for each in numbered(name))
    place.rename(next(path for path in free if not os.path.lexists(path)))
