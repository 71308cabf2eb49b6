"""Imports a folder of logs as a suite: each log is a run, and runs with equal settings are repeats of one cell."""

import os
import secrets
import shlex
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from steelyard import records
from steelyard.campaign.suite_cells import RunGroup, cells_of
from steelyard.campaign.suite_notices import notices
from steelyard.campaign.suite_reading import FolderReader, ReadRun, Requests
from steelyard.errors import InputError
from steelyard.ingestion.folder import LogFiles, logs_in
from steelyard.ingestion.foreign import interruptible, not_recorded
from steelyard.ingestion.outcome import experiment_name
from steelyard.ingestion.sources import shown_path
from steelyard.reasons import Reason
from steelyard.records import Event, Run
from steelyard.records.fleet import EARLIER
from steelyard.records.suite import Suite, SuiteCell, SuiteManifest, cell_directories
from steelyard.records.writer import check_new_name, numbered, rewrite_manifest

_READ = ".read"
"""Folder of the runs until their cells are known."""
_UNKNOWN = "unknown"
"""What the platform of a cell is called if it is unknown and others are known."""


@dataclass(frozen=True, slots=True)
class ImportedRun:
    """A run of an imported suite."""

    files: LogFiles
    run: Run
    notices: Sequence[Event]
    siblings: Mapping[int, Path]
    """The directories of all runs in its files, by number."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A log that could not be imported."""

    files: tuple[str, ...]
    error: InputError


@dataclass(frozen=True, slots=True)
class ImportedSuite:
    suite: Suite
    runs: tuple[ImportedRun, ...]
    """In the order of the cells."""
    left_out: tuple[LeftOut, ...]
    notices: tuple[Reason, ...]


def import_suite(
    directory: Path, out: Path, name: str | None, requests: Requests, progress: Callable[[int, int], None]
) -> ImportedSuite:
    """Import all logs of a folder at once, or nothing; logs that cannot be read are left out."""
    check_new_name(out, name)
    folder = logs_in(directory)
    requests.check(folder.logs)
    with interruptible(), _staged(out) as staging:
        reader = FolderReader(folder, requests, staging / _READ)
        reader.read(progress)
        left_out = tuple(_left_out(reader))
        if not reader.runs:
            raise _nothing(directory, left_out)
        axes, groups = cells_of([each.profile() for each in reader.runs])
        suite = Suite(staging, SuiteManifest(name="", axes=axes, cells=_cells(groups, reader.runs)))
        _arrange(suite, groups, reader.runs)
        shutil.rmtree(staging / _READ)
        own = records.stamped(experiment_name(str(directory.resolve())))
        suite = _published(suite, out, name, own)
    return ImportedSuite(suite, tuple(_imported(suite, groups, reader.runs)), left_out, tuple(notices(reader, groups)))


@contextmanager
def _staged(out: Path) -> Iterator[Path]:
    """A hidden directory, which is removed if anything fails."""
    staging = records.new_directory(out, None, f".new-suite-{secrets.token_hex(8)}")
    try:
        yield staging
    except BaseException as ended:
        shutil.rmtree(staging, ignore_errors=True)
        if isinstance(ended, OSError):
            raise not_recorded(out, ended) from None
        raise


def _left_out(reader: FolderReader) -> Iterator[LeftOut]:
    folder = reader.folder
    for path, reason in folder.unreadable.items():
        name, fix = folder.name(path), f"ls -ld {shlex.quote(shown_path(str(path)))}"
        problem, expected = f"{name} cannot be listed ({reason.strerror})", "a readable folder"
        yield LeftOut((name,), InputError(problem, key="PATH", value=name, expected=expected, next=fix))
    for path, first in folder.repeated.items():
        name, problem = folder.name(path), f"{folder.name(path)} repeats {folder.name(first)}"
        yield LeftOut((name,), InputError(problem, key="PATH", value=name, expected="the log of another run"))
    yield from (LeftOut(files.names, error) for files, error in reader.failed.items())


def _nothing(directory: Path, left_out: Sequence[LeftOut]) -> InputError:
    """The error if no log was imported, with the first reason."""
    shown, first = shown_path(str(directory)), left_out[0].error if left_out else None
    problem = f"--suite {shown}: no log could be imported{f'; {first.message}' if first else ''}"
    expected = (first and first.expected) or "a folder with logs or results"
    fix = (first and first.next) or f"ls -R {shlex.quote(shown)}"
    return InputError(problem, key="--suite", value=shown, expected=expected, next=fix)


def _cells(groups: Sequence[RunGroup], runs: Sequence[ReadRun]) -> list[SuiteCell]:
    several = len({group.platform for group in groups}) > 1
    platforms = [group.platform or (_UNKNOWN if several else None) for group in groups]
    directories = cell_directories([(name, group.name) for name, group in zip(platforms, groups, strict=True)])
    return [
        SuiteCell(
            name=directory.rpartition("/")[2],
            directory=directory,
            values=group.values,
            platform=platform,
            runs=list(_unique(runs[at].name for at in group.runs)),
            available_gib=runs[group.runs[0]].run.manifest.platform.memory_gib,
        )
        for group, platform, directory in zip(groups, platforms, directories, strict=True)
    ]


def _unique(names: Iterable[str]) -> Iterator[str]:
    taken = {EARLIER}
    for name in names:
        free = next(free for free in numbered(name) if free.casefold() not in taken)
        taken.add(free.casefold())
        yield free


def _arrange(suite: Suite, groups: Sequence[RunGroup], runs: Sequence[ReadRun]) -> None:
    """Move the runs to their cells."""
    for cell, group in zip(suite.manifest.cells, groups, strict=True):
        place = suite.directory / cell.directory
        place.mkdir(parents=True)
        for name, run in zip(cell.runs, (runs[at].run for at in group.runs), strict=True):
            rewrite_manifest(run.directory, run.manifest.model_copy(update={"name": name}))
            run.directory.rename(place / name)


def _published(suite: Suite, out: Path, name: str | None, own: str) -> Suite:
    """Rename the directory: an existing `name` is an error, the generated `own` gets -2, -3 … if taken."""
    for free in [name] if name is not None else numbered(own):
        check_new_name(out, name)
        if not os.path.lexists(out / free):
            named = suite.updated(name=free)
            named.save()
            suite.directory.rename(out / free)
            break
    return Suite(out / free, named.manifest)


def _imported(suite: Suite, groups: Sequence[RunGroup], runs: Sequence[ReadRun]) -> Iterator[ImportedRun]:
    places = {
        at: suite.directory / cell.directory / name
        for cell, group in zip(suite.manifest.cells, groups, strict=True)
        for name, at in zip(cell.runs, group.runs, strict=True)
    }
    siblings: dict[LogFiles, dict[int, Path]] = {}
    for at, place in places.items():
        siblings.setdefault(runs[at].files, {})[runs[at].number] = place
    for at, place in places.items():
        yield ImportedRun(runs[at].files, records.load(place), runs[at].notices, siblings[runs[at].files])
