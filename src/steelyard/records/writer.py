"""Writes a run during its execution; a crash at any byte leaves a readable run."""

import errno
import fcntl
import itertools
import json
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from steelyard.errors import InputError
from steelyard.files import open_regular, replace_file
from steelyard.records.manifest import FILE, Failure, RunManifest, RunStatus
from steelyard.records.step import Event, Step, to_line

STEPS, EVENTS, TELEMETRY, PLAN, LOGS = "steps.jsonl", "events.jsonl", "telemetry.jsonl", "plan.json", "logs"
FLEET, SUITE = "fleet.json", "suite.json"
NODES = "nodes.jsonl"
"""Steps of each node or rank, if several report; each line has its `series`."""
HEARTBEAT = "heartbeat"


def in_series(series: str, line: bytes) -> bytes:
    """A line of `steps.jsonl` with its series, for `nodes.jsonl`."""
    return b'{"series":' + json.dumps(series).encode() + b"," + line[1:]


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def stamped(*words: str) -> str:
    """A name that starts with the UTC time."""
    return "-".join([f"{datetime.now(UTC):%Y%m%dT%H%M%S}", *words])


def unstamped(name: str) -> str:
    """A name without its leading time."""
    return re.sub(r"^\d{8}T\d{6}-(?=.)", "", name)


class Heartbeat:
    """A lock from before a run is visible until its end is written; the kernel frees it if the process dies."""

    def __init__(self, run: Path) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        self._descriptor = os.open(run / HEARTBEAT, flags, 0o666)
        try:
            if not stat.S_ISREG(os.fstat(self._descriptor).st_mode):
                raise OSError(errno.EINVAL, "not a regular file")
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._descriptor)
            raise

    def stop(self, run: Path) -> None:
        """Remove the lock after the end of the run is written."""
        (run / HEARTBEAT).unlink(missing_ok=True)
        os.close(self._descriptor)


def beats(run: Path) -> bool:
    """Whether a process holds the run."""
    try:
        file = open_regular(run / HEARTBEAT)
    except FileNotFoundError:
        return False
    except OSError as reason:
        raise InputError(f"{run / HEARTBEAT} cannot be opened ({reason.strerror})", key="RUN", value=str(run)) from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


class RunWriter:
    """An open run directory; append-only until `finish`."""

    def __init__(self, directory: Path, manifest: RunManifest, heartbeat: Heartbeat) -> None:
        self.directory = directory
        self.manifest = manifest
        self.steps = 0
        self._heartbeat = heartbeat
        self._files: dict[str, IO[bytes]] = {}

    def append_step(self, step: Step) -> None:
        self._write(STEPS, to_line(step))
        self.steps += 1

    def append_node_step(self, lead: str, series: str, step: Step) -> None:
        """Record the steps of each node if several report; the steps of `lead` are those of the run."""
        begun = (self.directory / NODES).exists()
        if series != lead and not begun:
            for line in (self.directory / STEPS).read_bytes().splitlines(keepends=True):
                self._write(NODES, in_series(lead, line))
        if series != lead or begun:
            self._write(NODES, in_series(series, to_line(step)))

    def append_event(self, event: Event) -> None:
        self._write(EVENTS, to_line(event))

    def append_telemetry(self, sample: Mapping[str, Any]) -> None:
        self._write(TELEMETRY, json.dumps(sample, allow_nan=False, separators=(",", ":")).encode() + b"\n")

    def append_log(self, name: str, data: bytes) -> None:
        self._write(f"{LOGS}/{name}", data)

    def learn(self, **values: Any) -> None:
        self.manifest = self.manifest.model_copy(update=values)
        rewrite_manifest(self.directory, self.manifest)

    def finish(self, status: RunStatus, exit_status: int | None, failure: Failure | None) -> None:
        """Record the end of the run; nothing is appended afterwards."""
        for file in self._files.values():
            file.close()
        provenance = self.manifest.provenance.model_copy(update={"ended": now()})
        self.learn(status=status, steps=self.steps, exit_status=exit_status, failure=failure, provenance=provenance)
        self._heartbeat.stop(self.directory)

    def _write(self, name: str, data: bytes) -> None:
        """Append without buffering; undone if it fails, so that no partial line remains."""
        if name not in self._files:
            self._files[name] = (self.directory / name).open("ab", buffering=0)
        file, left = self._files[name], memoryview(data)
        before = os.fstat(file.fileno()).st_size
        try:
            while left:
                left = left[file.write(left) :]
        except OSError:
            os.ftruncate(file.fileno(), before)
            raise


class StagedRun:
    """A run directory under a hidden name, which is then renamed atomically or removed."""

    def __init__(self, out: Path, name: str | None) -> None:
        check_new_name(out, name)
        self.out, self._name = out, name
        self._heartbeat: Heartbeat | None = None
        try:
            out.mkdir(parents=True, exist_ok=True)
            self.directory = out / f".new-run-{secrets.token_hex(8)}"
            self.directory.mkdir()
        except OSError as reason:
            raise _unwritable(out, reason) from None
        try:
            self._heartbeat = Heartbeat(self.directory)
            (self.directory / LOGS).mkdir()
            for appended in (STEPS, EVENTS, TELEMETRY):
                (self.directory / appended).touch()
        except BaseException:
            self.remove()
            raise

    def named(self, name: str | None) -> None:
        """Change the requested name."""
        check_new_name(self.out, name)
        self._name = name

    def claim(self, manifest: RunManifest, plan: Mapping[str, Any] | None) -> RunWriter:
        """Rename it: an existing requested name is an error, a generated name gets -2, -3 … if taken."""
        try:
            if plan is not None:
                (self.directory / PLAN).write_text(json.dumps(plan, indent=2, allow_nan=False) + "\n")
            return self._claimed(manifest)
        except BaseException:
            self.remove()
            raise

    def _claimed(self, manifest: RunManifest) -> RunWriter:
        for taken in (self.out / free_name for free_name in ([self._name] if self._name else numbered(manifest.name))):
            manifest = manifest.model_copy(update={"name": taken.name})
            rewrite_manifest(self.directory, manifest)
            try:
                if not os.path.lexists(taken):
                    self.directory.rename(taken)
                    assert self._heartbeat is not None
                    return RunWriter(taken, manifest, self._heartbeat)
            except OSError as reason:
                if not isinstance(reason, FileExistsError) and not os.path.lexists(taken):
                    raise _unwritable(self.out, reason) from None
        raise _exists_already(taken)

    def remove(self) -> None:
        if self._heartbeat is not None:
            self._heartbeat.stop(self.directory)
        shutil.rmtree(self.directory, ignore_errors=True)


def create_run(out: Path, manifest: RunManifest, plan: Mapping[str, Any], name: str | None) -> RunWriter:
    """Make the run directory atomically, so that it is never visible while incomplete."""
    return StagedRun(out, name).claim(manifest, plan)


def rewrite_manifest(directory: Path, manifest: RunManifest) -> None:
    """Replace run.json at once."""
    replace_file(directory / FILE, manifest.model_dump_json(indent=2) + "\n")


def check_new_name(out: Path, name: str | None) -> None:
    """Refuse an invalid or existing name before anything is written."""
    if name is None:
        return
    fits = name.isprintable() and "/" not in name and len(os.fsencode(name)) <= 200
    if not name or name.startswith((".", "-")) or not fits:
        expected = "one printable path component that does not start with '.' or '-'"
        fix = f"--name {re.sub(r'[^A-Za-z0-9._-]+', '-', name).strip('.-')[:60] or 'run-1'}"
        problem = f"--name {name!r} is not a valid directory name"
        raise InputError(problem, key="--name", value=name, expected=expected, next=fix)
    if os.path.lexists(out / name):
        raise _exists_already(out / name)


def new_directory(out: Path, name: str | None, own: str) -> Path:
    """Make a directory: an existing `name` is an error, the generated `own` gets -2, -3 … if taken."""
    check_new_name(out, name)
    for path in (out / free_name for free_name in ([name] if name else numbered(own))):
        try:
            path.mkdir(parents=True)
            return path
        except FileExistsError:
            if name is not None or not os.path.lexists(path):
                break
        except OSError as reason:
            raise _unwritable(out, reason) from None
    raise _exists_already(path)


def numbered(base: str) -> Iterator[str]:
    """A name, then the name with -2, -3 …"""
    yield base
    yield from (f"{base}-{number}" for number in itertools.count(2))


def _unwritable(out: Path, reason: OSError) -> InputError:
    problem, expected = f"--out {out} is not writable ({reason.strerror})", "a writable directory"
    return InputError(problem, key="--out", value=str(out), expected=expected, next="--out runs")


def _exists_already(path: Path) -> InputError:
    problem, name = f"{path} already exists", path.name
    return InputError(problem, key="--name", value=name, expected="a new name", next=f"--name {name}-2")
