"""Reads runs back: their manifest, steps and events."""

import difflib
import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from steelyard.errors import InputError
from steelyard.records import strict
from steelyard.records.manifest import FILE, RunManifest, RunStatus, load_manifest, not_a_run
from steelyard.records.step import Event, Step, event_of, step_of
from steelyard.records.writer import EVENTS, FLEET, STEPS, SUITE, beats, unstamped

if TYPE_CHECKING:
    from steelyard.records.columns import StepTable

Record = TypeVar("Record", Step, Event)

_MOST_NEAR = 3
"""Names suggested for one that does not exist."""
MOST_EVENT_VALUES = 5_000_000
"""Limit: events are kept in memory, about 100 bytes per value; an evaluation has 7 values."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run directory and its manifest."""

    directory: Path
    manifest: RunManifest
    status: RunStatus
    """Status of the manifest; `interrupted` if it is `running` but the run's process is gone."""

    def steps(self) -> "StepTable":
        """The steps as columns, such as `steps().loss.values`."""
        from steelyard.records.columns import table  # imports this module

        return table(self.directory)

    @property
    def num_steps(self) -> int:
        """Number of step records; counted if the run ended without recording it."""
        if self.manifest.steps is not None:
            return self.manifest.steps
        return sum(block.count(b"\n") for block in strict.line_blocks(self.directory / STEPS))


def load(run: Path | str) -> Run:
    """Read the manifest of a run directory."""
    run = Path(run)
    manifest = load_manifest(run)
    status = manifest.status
    if status == "running" and not beats(run):
        manifest = load_manifest(run)  # the run may have ended in between
        status = "interrupted" if manifest.status == "running" else manifest.status
    return Run(run, manifest, status)


def find(name: str, out: Path) -> Run:
    """The run of a path, or of a name under --out."""
    if (directory := located(name, out)) is not None:
        return load(directory)
    for directory in (Path(name), out / name):
        if runs := runs_under(directory):
            problem = f"{name!r} is a directory with {len(runs)} run{'s' * (len(runs) != 1)}"
            raise InputError(problem, key="RUN", value=name, expected="one run", next=str(runs[0]))
    raise run_not_found(name, out)


def run_not_found(name: str, out: Path, key: str = "RUN", expected: str = "a run directory") -> InputError:
    """The error for a path or name without a run, with the nearest names and the next command."""
    if os.path.isfile(name):  # noqa: PTH113 - Path.is_file raises on a name too long
        fix = f"steelyard {verb_for(name)} {shlex.quote(name)}"
        return InputError(f"{name!r} is a file, not a run", key=key, value=name, expected=expected, next=fix)
    return not_found("Run", name, run_names(out), out, key=key, expected=expected, next=listing(out))


def run_names(out: Path) -> list[str]:
    """Names of runs, fleets, suites and directories of runs directly under `out`."""
    return [
        path.name
        for path in folders_of(out)
        if any(os.path.lexists(path / file) for file in (FILE, FLEET, SUITE)) or runs_under(path)
    ]


def listing(out: Path) -> str:
    """The command that lists the runs under `out`."""
    return "steelyard runs list" if out == Path("runs") else f"steelyard runs list --out {shlex.quote(str(out))}"


def not_found(kind: str, name: str, names: Sequence[str], looked_in: Path, **details: str) -> InputError:
    """The error for a name that does not exist under `looked_in`, with the nearest of the existing names."""
    by_spelling = {unstamped(existing): existing for existing in names} | {existing: existing for existing in names}
    spellings = difflib.get_close_matches(name, list(by_spelling), n=_MOST_NEAR)
    near = tuple(dict.fromkeys(by_spelling[spelling] for spelling in spellings))
    return InputError(f"{kind} {name!r} not found (looked in {looked_in}/)", value=name, near=near, **details)


def located(name: str, out: Path) -> Path | None:
    """The directory of a path or name, if it has a manifest, readable or not."""
    return next((place for place in (Path(name), out / name) if os.path.lexists(place / FILE)), None)


def verb_for(file: str) -> str:
    """The verb that makes a run of a file: `run` for a config, `ingest` for a log."""
    return "run" if file.endswith((".yaml", ".yml")) else "ingest"


def runs_under(out: Path) -> list[Path]:
    """Run directories directly under `out`, sorted by name."""
    return holding(FILE, out)


def holding(file: str, out: Path) -> list[Path]:
    """Directories directly under `out` with a file of this name, of any kind, sorted by name."""
    return [path for path in folders_of(out) if os.path.lexists(path / file)]


def folders_of(out: Path) -> list[Path]:
    """Visible entries of a directory, sorted by name; empty if it cannot be read."""
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
    """The first and the last step, without reading the steps between."""
    path = run_directory(run) / STEPS
    first = next(strict.whole_lines(path), None)
    if first is None:
        return None, None
    with strict.open_record(path) as file:
        size = file.seek(0, os.SEEK_END)
        for back in (1 << 16, 2 * strict.LINE_BYTES + 2):  # an incomplete line may follow the last step
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
            raise strict.unreadable(path, f"more than {MOST_EVENT_VALUES:,} values")
        yield _read(event_of, path, f"line {number}", line)


def run_directory(run: Path | str) -> Path:
    """The path, if it has a manifest, readable or not."""
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
