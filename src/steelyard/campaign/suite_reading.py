"""Reads every log of a folder as a run, and joins the logs of nodes and ranks of one run."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Protocol

from steelyard import ingestion, records
from steelyard.campaign.suite_cells import SETTINGS, Profile, profile_of
from steelyard.comparison.contract import difference
from steelyard.comparison.curve import common_steps
from steelyard.comparison.turns import period
from steelyard.errors import InputError
from steelyard.ingestion.detect import check_readable
from steelyard.ingestion.folder import Folder, LogFiles
from steelyard.ingestion.outcome import UnrecognizedError, experiment_name
from steelyard.records import Event, Run
from steelyard.verdict import Subject

Period = tuple[datetime, datetime]

_FEWEST_LOSSES = 2
"""Equal losses that make two logs one run."""


class Requests(Protocol):
    """The options of the import."""

    def check(self, logs: Sequence[LogFiles]) -> None:
        """Refuse options that do not fit the folder."""

    def make(self, files: LogFiles, out: Path, name: str) -> ingestion.Request: ...


@dataclass(frozen=True, slots=True)
class ReadRun:
    """A run of the folder, in a directory of its own."""

    files: LogFiles
    run: Run
    notices: Sequence[Event]
    count: int
    """How many runs of its files are imported."""

    @property
    def number(self) -> int:
        """Which run of its files it is, from 1."""
        source = self.run.manifest.ingested
        assert source is not None
        return source.run

    @property
    def name(self) -> str:
        stem = experiment_name(str(self.files.paths[0]))
        return stem if self.count == 1 else f"{stem}-{self.number}"

    def subject(self) -> Subject:
        return Subject(self.run, self.run.steps(), (), (), 0)

    def profile(self) -> Profile:
        log = self.files.names[0]
        return profile_of(self.subject(), log if self.count == 1 else f"{log}:{self.number}")


@dataclass(slots=True)
class FolderReader:
    folder: Folder
    requests: Requests
    place: Path
    """Where the runs are written."""
    runs: list[ReadRun] = field(default_factory=list)
    failed: dict[LogFiles, InputError] = field(default_factory=dict)
    """Logs that could not be imported."""
    not_logs: list[LogFiles] = field(default_factory=list)
    joined: list[LogFiles] = field(default_factory=list)
    """The logs of several nodes or ranks, each joined to one run."""
    _places: Iterator[int] = field(default_factory=count)

    def read(self, progress: Callable[[int, int], None]) -> None:
        """Read all logs; `progress` gets the number of logs that are read, and of all."""
        for number, files in enumerate(self.folder.logs):
            progress(number, len(self.folder.logs))
            self._read(files)
        progress(len(self.folder.logs), len(self.folder.logs))
        families: dict[object, list[LogFiles]] = {}
        for files in self.folder.logs:
            families.setdefault(files.numbered or files, []).append(files)
        for family in families.values():
            if len(family) > 1 and self._is_one_run(family):
                self._join(family)

    def _read(self, files: LogFiles) -> None:
        try:
            self.runs += self._imported(files)
        except UnrecognizedError as error:
            if files.named_like_logs:
                self.failed[files] = error
            else:
                self.not_logs.append(files)
        except InputError as error:
            if error.key == "--out":
                raise
            self.failed[files] = error

    def _imported(self, files: LogFiles) -> list[ReadRun]:
        for path in files.paths:
            check_readable(str(path), files.named_like_logs)
        place = self.place / str(next(self._places))
        imported = ingestion.ingest(self.requests.make(files, place, "run"))
        runs = [ReadRun(files, records.load(made.directory), notices, len(imported)) for made, notices in imported]
        if not files.named_like_logs and not any(map(_is_of_a_run, runs)):
            shutil.rmtree(place)
            raise UnrecognizedError(f"{files.words} quotes a training program, but is not a log of it")
        return runs

    def _is_one_run(self, family: Sequence[LogFiles]) -> bool:
        """Whether the logs of nodes or ranks belong together: equal settings, and equal losses at the same steps.

        Logs without steps and settings belong to the others, unless they fail where the others complete.
        """
        runs = [each for each in self.runs if each.files in family]
        errors = [error for files, error in self.failed.items() if files in family]
        if any(each.count > 1 for each in runs) or not all(isinstance(error, UnrecognizedError) for error in errors):
            return False
        subjects = [each.subject() for each in runs]
        stepped = [subject for subject in subjects if len(subject.steps)]
        silent = [subject.run for subject in subjects if not len(subject.steps)]
        completed = any(subject.run.status == "completed" for subject in stepped)
        return (
            bool(stepped)
            and all(_same_losses(stepped[0], other) for other in stepped[1:])
            and not any(_has_settings(run) or (completed and run.manifest.failure) for run in silent)
            and difference(subjects, SETTINGS) is None
        )

    def _join(self, family: Sequence[LogFiles]) -> None:
        whole = LogFiles(
            tuple(path for files in family for path in files.paths),
            tuple(name for files in family for name in files.names),
            family[0].gpu,
        )
        try:
            runs = self._imported(whole)
        except InputError:  # then each remains what it is alone
            return
        first = min(at for at, each in enumerate(self.runs) if each.files in family)
        others = [each for each in self.runs if each.files not in family]
        self.runs = [*others[:first], *runs, *others[first:]]
        self.failed = {files: error for files, error in self.failed.items() if files not in family}
        self.not_logs = [files for files in self.not_logs if files not in family]
        self.joined.append(whole)


def _same_losses(first: Subject, other: Subject) -> bool:
    """Whether two records have the same losses, at the same time if both have timestamps."""
    _, at, there = common_steps(first.steps.step, other.steps.step)
    equal = first.steps.loss.values[at] == other.steps.loss.values[there]
    return len(at) >= _FEWEST_LOSSES and bool(equal.all()) and _at_once(period(first), period(other))


def _at_once(first: Period | None, other: Period | None) -> bool:
    """Whether two periods overlap, as far as they are known."""
    if first is None or other is None:
        return True
    (began, ended), (other_began, other_ended) = (
        [time.replace(tzinfo=None) for time in each] for each in (first, other)
    )
    return began <= other_ended and other_began <= ended


def _is_of_a_run(read: ReadRun) -> bool:
    """Whether a text has steps, or settings with a failure: any text may quote a command or an error."""
    return read.run.num_steps > 0 or (_has_settings(read.run) and read.run.manifest.failure is not None)


def _has_settings(run: Run) -> bool:
    return run.manifest.ingested is not None and bool(run.manifest.ingested.said)
