"""The files of a folder that may be logs, and which of them belong to one run by their names."""

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from steelyard.errors import InputError
from steelyard.hardware.catalog import lookup
from steelyard.ingestion.importers.table import plain_name
from steelyard.ingestion.parts import OF_A_NODE
from steelyard.ingestion.sources import shown_path
from steelyard.records import FLEET, MANIFEST
from steelyard.records.writer import SUITE

MOST_FILES = 20_000
DEEPEST = 16
"""Levels of folders."""
_NOT_LOGS = {
    *(".md", ".rst", ".html", ".tex", ".py", ".ipynb", ".sh", ".bash", ".sbatch", ".slurm", ".c", ".cpp", ".h", ".cu"),
    *(".yaml", ".yml", ".toml", ".ini", ".cfg", ".conf"),
}
"""Suffixes of texts that may quote a log, or contain the command of one."""
_LOG = re.compile(r".\.(?:log|out|err|stdout|stderr)(?:\.\d+)?\Z")
_OUTPUTS = (".log", ".out")
"""Suffixes of the output that a file of errors is next to; of two, the last counts."""
_STATE, _CHECKPOINT = "trainer_state.json", re.compile(r"checkpoint-(\d{1,12})")
_LAST_NUMBER = re.compile(r"\.\d+\Z")
_BLOCK = 1 << 20


class Skip(StrEnum):
    """Why something in a folder is not read."""

    TEXT = "text"
    """By its name it is not a log."""
    LINK = "link"
    """A symbolic link or a special file."""
    DEEP = "deep"
    """Below the deepest level."""
    RECORD = "record"
    """The directory of a run, a fleet or a suite."""


@dataclass(frozen=True, slots=True)
class LogFiles:
    """The files of one run."""

    paths: tuple[Path, ...]
    names: tuple[str, ...]
    """The same relative to the folder, as printable text."""
    gpu: str | None
    """The GPU that the nearest folder above is named after."""

    @property
    def words(self) -> str:
        return " and ".join(self.names)

    @property
    def named_like_logs(self) -> bool:
        return any(_LOG.search(plain_name(str(path))) for path in self.paths)

    @property
    def numbered(self) -> tuple[Path, str] | None:
        """The folder and the name without the number of a node or rank; None without such a number."""
        name = plain_name(str(self.paths[0]))
        number = next(reversed(list(OF_A_NODE.finditer(name))), None) or _LAST_NUMBER.search(name)
        if number is None:
            return None
        return self.paths[0].parent, name[: number.start()] + re.sub(r"\d+", "#", number[0]) + name[number.end() :]


@dataclass(slots=True)
class Folder:
    """The content of a folder, in the order of its names."""

    directory: Path
    logs: list[LogFiles] = field(default_factory=list)
    skipped: dict[Path, Skip] = field(default_factory=dict)
    unreadable: dict[Path, OSError] = field(default_factory=dict)
    """Folders that cannot be listed."""
    repeated: dict[Path, Path] = field(default_factory=dict)
    """Files whose content is also in another file, with that file."""

    def name(self, path: Path) -> str:
        return shown_path(str(path.relative_to(self.directory)))


def logs_in(directory: Path) -> Folder:
    """List a folder; links are not followed, and hidden files are left out."""
    folder = Folder(directory)
    files: list[Path] = []
    for path in _walk(folder, directory, 0):
        if Path(plain_name(str(path))).suffix in _NOT_LOGS:
            folder.skipped[path] = Skip.TEXT
        else:
            files.append(path)
        if len(files) + len(folder.skipped) > MOST_FILES:
            raise _refused(directory, f"has more than {MOST_FILES:,} files", "--suite with one of its folders")
    shown = shown_path(str(directory))
    if directory in folder.unreadable:
        reason = folder.unreadable[directory].strerror
        raise _refused(directory, f"cannot be listed ({reason})", f"ls -ld {shown}")
    if directory in folder.skipped:
        raise _refused(directory, "is a recorded run, fleet or suite", f"steelyard check {shown}")
    folder.repeated |= _earlier_states(files)
    groups = list(_together(path for path in files if path not in folder.repeated))
    folder.repeated |= _copies(groups)
    folder.logs = [_log_files(folder, paths) for paths in groups if paths[0] not in folder.repeated]
    return folder


def _refused(directory: Path, flaw: str, fix: str) -> InputError:
    problem, value = f"--suite {shown_path(str(directory))} {flaw}", str(directory)
    return InputError(problem, key="--suite", value=value, expected="a folder of logs", next=fix)


def _walk(folder: Folder, here: Path, depth: int) -> Iterator[Path]:
    try:
        with os.scandir(here) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
    except OSError as reason:
        folder.unreadable[here] = reason
        return
    if {MANIFEST, FLEET, SUITE} & {entry.name for entry in entries}:
        folder.skipped[here] = Skip.RECORD
        return
    for entry in entries:
        path = here / entry.name
        if entry.name.startswith("."):
            continue
        if entry.is_dir(follow_symlinks=False) and depth < DEEPEST:
            yield from _walk(folder, path, depth + 1)
        elif entry.is_dir(follow_symlinks=False):
            folder.skipped[path] = Skip.DEEP
        elif entry.is_file(follow_symlinks=False):
            yield path
        else:
            folder.skipped[path] = Skip.LINK


def _log_files(folder: Folder, paths: Sequence[Path]) -> LogFiles:
    above = paths[0].relative_to(folder.directory).parent.parts
    gpu = next((gpu.name for name in reversed(above) if (gpu := lookup(name))), None)
    return LogFiles(tuple(paths), tuple(map(folder.name, paths)), gpu)


def _together(files: Iterable[Path]) -> Iterator[list[Path]]:
    """The files by run: Slurm's errors with the output of the same name, event files of one folder."""
    groups: dict[Path, list[Path]] = {}
    for path in files:
        group = path.parent if "tfevents" in path.name else path
        groups[group] = [group]  # a folder of event files is read as one
    named = {path: path.parent / plain_name(str(path)) for path in groups}
    outputs = {
        name.with_suffix(""): path for suffix in _OUTPUTS for path, name in named.items() if name.suffix == suffix
    }
    for path, name in named.items():
        if name.suffix == ".err" and (output := outputs.get(name.with_suffix(""))) is not None:
            groups[output] += groups.pop(path)
    yield from groups.values()


def _earlier_states(files: Iterable[Path]) -> dict[Path, Path]:
    """States that the Hugging Face Trainer saved with its checkpoints, each with the last state of the run."""
    states: dict[Path, dict[float, Path]] = {}
    for path in (path for path in files if path.name == _STATE):
        saved = _CHECKPOINT.fullmatch(path.parent.name)
        run, step = (path.parent.parent, float(saved[1])) if saved else (path.parent, float("inf"))
        states.setdefault(run, {})[step] = path
    lasts = ((by_step, by_step[max(by_step)]) for by_step in states.values())
    return {path: last for by_step, last in lasts for path in by_step.values() if path != last}


def _copies(groups: Sequence[Sequence[Path]]) -> dict[Path, Path]:
    """The first file of groups that have the content of an earlier group, with the first file of that."""
    by_size: dict[tuple[int, ...], list[Sequence[Path]]] = {}
    for paths in groups:
        sizes = tuple(path.stat().st_size for path in paths if path.is_file())
        if any(sizes):
            by_size.setdefault(sizes, []).append(paths)
    copies: dict[Path, Path] = {}
    for alike in (alike for alike in by_size.values() if len(alike) > 1):
        firsts: dict[tuple[bytes, ...], Path] = {}
        for paths in alike:
            first = firsts.setdefault(tuple(map(_digest, paths)), paths[0])
            if first != paths[0]:
                copies[paths[0]] = first
    return copies


def _digest(path: Path) -> bytes:
    """Of the content; of the path, if it cannot be read, which its import reports."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError:
        return os.fsencode(path)
