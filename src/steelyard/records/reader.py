"""Reads runs back: their manifest, steps and events."""

import io
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from steelyard.errors import InputError
from steelyard.records.heartbeat import beats
from steelyard.records.manifest import FILE, RunManifest, RunStatus, load_manifest, not_a_run
from steelyard.records.step import Event, Step, event_of, step_of
from steelyard.records.strict import strict_json
from steelyard.records.writer import EVENTS, STEPS

Record = TypeVar("Record", Step, Event)


@dataclass(frozen=True, slots=True)
class Run:
    """A run directory and its manifest."""

    directory: Path
    manifest: RunManifest
    status: RunStatus
    """The manifest's, but `interrupted` where it says `running` and nobody holds the run any more."""

    @property
    def num_steps(self) -> int:
        """Step records; counted where the run did not live to say."""
        if self.manifest.steps is not None:
            return self.manifest.steps
        return sum(1 for _ in _whole_lines(self.directory / STEPS))


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
    for directory in (Path(name), out / name):
        if os.path.exists(directory / FILE):  # noqa: PTH110 - Path.exists raises on a name too long
            return load(directory)
    for directory in (Path(name), out / name):
        if held := list(runs_under(directory)):
            raise InputError(
                f"{name!r} is a directory of {len(held)} run{'s' * (len(held) != 1)}",
                key="RUN",
                value=name,
                expected="one run",
                next=str(held[0]),
            )
    is_file = os.path.isfile(name)  # noqa: PTH113 - as above
    raise InputError(
        f"{name!r} is no run, neither as a path nor under {out}{'; it is a file' if is_file else ''}",
        key="RUN",
        value=name,
        expected="a run directory",
        next=f"steelyard {verb_for(name)} {name}" if is_file else f"steelyard runs list --out {out}",
    )


def verb_for(file: str) -> str:
    """What makes a run of a file: a config is run, a log is read."""
    return "run" if file.endswith((".yaml", ".yml")) else "ingest"


def runs_under(out: Path) -> Iterator[Path]:
    """Run directories directly under `out`, by name."""
    if os.path.isdir(out):  # noqa: PTH112 - Path.is_dir raises on a name too long
        yield from sorted(path.parent for path in out.glob(f"*/{FILE}") if not path.parent.name.startswith("."))


def steps(run: Path | str) -> Iterator[Step]:
    """The steps in the order they were written, NaN as NaN; a last line cut short by a crash is not one."""
    run = _run_directory(run)
    for number, line in _whole_lines(run / STEPS):
        yield _read(step_of, run / STEPS, number, line)


def first_and_last(run: Path | str) -> tuple[Step | None, Step | None]:
    """The first and the last step, without reading those between."""
    path = _run_directory(run) / STEPS
    first = next(_whole_lines(path), None)
    if first is None:
        return None, None
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        for back in (1 << 16, 1 << 22, size):
            file.seek(max(0, size - back))
            whole = file.read().rpartition(b"\n")[0]
            if b"\n" in whole or back >= size:
                break
    last = whole.rpartition(b"\n")[2]
    return _read(step_of, path, 1, first[1]), _read(step_of, path, -1, last)


def events(run: Path | str) -> Iterator[Event]:
    """The events in the order they were written."""
    run = _run_directory(run)
    for number, line in _whole_lines(run / EVENTS):
        yield _read(event_of, run / EVENTS, number, line)


def _run_directory(run: Path | str) -> Path:
    if not (Path(run) / FILE).exists():
        raise not_a_run(Path(run))
    return Path(run)


def _read(make: Callable[[dict[str, Any]], Record], path: Path, number: int, line: bytes) -> Record:
    try:
        content = strict_json(line)
        if not isinstance(content, dict):
            raise ValueError("not an object")
        return make(content)
    except (ValueError, TypeError, RecursionError) as reason:
        raise InputError(f"{path}: line {number} cannot be read ({reason})", key="RUN", value=str(path)) from None


def open_record(path: Path) -> BinaryIO:
    """A file of a run; one that was never written is empty."""
    try:
        return path.open("rb")
    except FileNotFoundError:
        return io.BytesIO()
    except OSError as reason:
        raise InputError(f"{path} cannot be read ({reason.strerror})", key="RUN", value=str(path)) from None


def _whole_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    with open_record(path) as file:
        for number, line in enumerate(file, start=1):
            if line.endswith(b"\n"):
                yield number, line
