"""Reads runs back: their manifest, steps and events."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from steelyard.errors import InputError
from steelyard.records import strict
from steelyard.records.manifest import FILE, RunManifest, RunStatus, load_manifest, not_a_run
from steelyard.records.step import Event, Step, event_of, step_of
from steelyard.records.writer import EVENTS, STEPS, beats

if TYPE_CHECKING:
    from steelyard.records.columns import StepTable

Record = TypeVar("Record", Step, Event)

MOST_EVENT_VALUES = 5_000_000
"""Events are kept whole, at some 100 bytes of memory a value; an evaluation has 7 of them."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run directory and its manifest."""

    directory: Path
    manifest: RunManifest
    status: RunStatus
    """The manifest's, but `interrupted` where it says `running` and nobody holds the run any more."""

    def steps(self) -> "StepTable":
        """Its steps as columns, such as `steps().loss.values`."""
        from steelyard.records.columns import table  # which needs this module

        return table(self.directory)

    @property
    def num_steps(self) -> int:
        """Step records; counted where the run did not live to say."""
        if self.manifest.steps is not None:
            return self.manifest.steps
        return sum(block.count(b"\n") for block in strict.line_blocks(self.directory / STEPS))


def load(run: Path | str) -> Run:
    """Read the manifest of a run directory."""
    run = Path(run)
    manifest = load_manifest(run)
    status = manifest.status
    if status == "running" and not beats(run):
        manifest = load_manifest(run)  # it may have ended between the two looks
        status = "interrupted" if manifest.status == "running" else manifest.status
    return Run(run, manifest, status)


def find(name: str, out: Path) -> Run:
    """RUN as the command line takes it: a path, or a name under --out."""
    if (directory := located(name, out)) is not None:
        return load(directory)
    for directory in (Path(name), out / name):
        if held := runs_under(directory):
            problem = f"{name!r} is a directory of {len(held)} run{'s' * (len(held) != 1)}"
            raise InputError(problem, key="RUN", value=name, expected="one run", next=str(held[0]))
    is_file = os.path.isfile(name)  # noqa: PTH113 - Path.is_file raises on a name too long
    problem = f"{name!r} is no run, neither as a path nor under {out}{'; it is a file' if is_file else ''}"
    fix = f"steelyard {verb_for(name)} {name}" if is_file else f"steelyard runs list --out {out}"
    raise InputError(problem, key="RUN", value=name, expected="a run directory", next=fix)


def located(name: str, out: Path) -> Path | None:
    """The directory that such a name means, if it has a manifest, readable or not."""
    return next((place for place in (Path(name), out / name) if os.path.lexists(place / FILE)), None)


def verb_for(file: str) -> str:
    """What makes a run of a file: a config is run, a log is read."""
    return "run" if file.endswith((".yaml", ".yml")) else "ingest"


def runs_under(out: Path) -> list[Path]:
    """Run directories directly under `out`, by name."""
    return holding(FILE, out)


def holding(file: str, out: Path) -> list[Path]:
    """Directories directly under `out` that have a file of this name, whatever kind of file it is, by name."""
    return [path for path in folders_of(out) if os.path.lexists(path / file)]


def folders_of(out: Path) -> list[Path]:
    """What lies in a directory and may be one, by name, without what is hidden; none where it may not be read."""
    try:
        return sorted(path for path in out.iterdir() if not path.name.startswith("."))
    except (OSError, ValueError):  # ValueError: a name with a null
        return []


def steps(run: Path | str) -> Iterator[Step]:
    """The steps in the order they were written, NaN as NaN; a last line cut short by a crash is not one."""
    path = run_directory(run) / STEPS
    for number, line in strict.whole_lines(path):
        yield _read(step_of, path, f"line {number}", line)


def first_and_last(run: Path | str) -> tuple[Step | None, Step | None]:
    """The first and the last step, without reading those between."""
    path = run_directory(run) / STEPS
    first = next(strict.whole_lines(path), None)
    if first is None:
        return None, None
    with strict.open_record(path) as file:
        size = file.seek(0, os.SEEK_END)
        for back in (1 << 16, 2 * strict.LINE_BYTES + 2):  # a line that was cut short may follow the last
            file.seek(max(0, size - back))
            whole = file.read(back).rpartition(b"\n")[0]
            if b"\n" in whole or back >= size:
                break
        else:
            raise strict.unreadable(path, f"a line is longer than {strict.LINE_BYTES >> 20} MiB")
    last = whole.rpartition(b"\n")[2]
    return _read(step_of, path, "line 1", first[1]), _read(step_of, path, "the last line", last)


def events(run: Path | str) -> Iterator[Event]:
    """The events in the order they were written."""
    path, values = run_directory(run) / EVENTS, 0
    for number, line in strict.whole_lines(path):
        values += sum(line.count(mark) for mark in (b",", b"[", b"{"))
        if values > MOST_EVENT_VALUES:
            raise strict.unreadable(path, f"it holds more than {MOST_EVENT_VALUES:,} values")
        yield _read(event_of, path, f"line {number}", line)


def run_directory(run: Path | str) -> Path:
    """A directory that has a manifest, readable or not."""
    if not os.path.lexists(Path(run) / FILE):
        raise not_a_run(Path(run))
    return Path(run)


def _read(make: Callable[[dict[str, Any]], Record], path: Path, place: str, line: bytes) -> Record:
    try:
        content = strict.strict_json(line)
        if not isinstance(content, dict):
            raise ValueError("not an object")
        return make(content)
    except (ValueError, TypeError) as reason:
        raise strict.unreadable_line(path, place, reason) from None
