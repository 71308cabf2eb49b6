"""From files to run directories: read, find the runs that they hold, record."""

import gc
import shlex
import shutil
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from steelyard.errors import InfrastructureError, InputError
from steelyard.ingestion.request import Request
from steelyard.ingestion.runs import ChosenRun
from steelyard.ingestion.sources import STDIN
from steelyard.ingestion.work import Work
from steelyard.records import Event, RunWriter
from steelyard.records.writer import StagedRun, check_new_name

Imported = tuple[RunWriter, list[Event]]
"""A recorded run, and the events that the user should see."""


def ingest(request: Request) -> list[Imported]:
    """Read all files and write the run, or each run asked for. If reading fails, nothing remains."""
    begun: list[Work] = []
    imported: list[Imported] = []
    try:
        with _undisturbed():
            for run in _imported(request, begun):
                imported.append(run)
        return imported
    except BaseException as ended:
        for work in begun:
            work.discard()
        for writer, _ in imported:
            shutil.rmtree(writer.directory)
        if isinstance(ended, OSError):
            raise not_recorded(request.out, ended) from None
        raise


def not_recorded(out: Path, reason: OSError) -> InfrastructureError:
    return InfrastructureError(
        f"{out}: the run could not be recorded ({reason.strerror or reason})",
        key="--out",
        value=str(out),
        expected="a writable disk with free space",
        next=f"df -h {shlex.quote(str(out))}",
    )


def _imported(request: Request, begun: list[Work]) -> Iterator[Imported]:
    """Read once; if the files hold several runs, read again what belongs to each asked one."""
    every = request.run == "all"
    first = _begun(replace(request, name=None if every else request.name), None, begun)
    first.read()
    if request.follow:  # it is recorded already
        yield first.finish(), first.outcome.notices
        return
    numbers = _asked(request, count := first.found.count)
    base = request.name or first.outcome.manifest(request.command).name
    names = {number: f"{base}-{number}" if every else request.name for number in numbers}
    for name in names.values():
        check_new_name(request.out, name)
    if count == 1:
        first.staged.named(names[1])
        yield first.finish(), first.outcome.notices
        return
    for number, name in names.items():
        chosen = first.found.choose(number, _to_read(first))
        work = _begun(replace(request, name=name), chosen, begun)
        work.read()
        yield work.finish(), work.outcome.notices
    first.discard()


def _begun(request: Request, chosen: ChosenRun | None, begun: list[Work]) -> Work:
    staged = StagedRun(request.out, request.name)
    try:
        begun.append(work := Work(request, staged, chosen))
    except BaseException:
        staged.remove()
        raise
    return work


def _to_read(first: Work) -> Sequence[str]:
    """The files; for standard input and pipes, which can be read only once, their copies."""
    return [
        path if path != STDIN and Path(path).is_file() else str(first.directory / file.kept)
        for path, file in zip(first.request.paths, first.outcome.files, strict=True)
    ]


def _asked(request: Request, count: int) -> Sequence[int]:
    """The numbers of the runs to record."""
    if request.run == "all":
        return range(1, count + 1)
    number = count if request.run == "last" else request.run
    if not 1 <= number <= count:
        raise InputError(
            f"--run {number}, but the files hold {count} run{'s' * (count != 1)}",
            key="--run",
            value=number,
            expected="last, all, or a number from 1" + (f" to {count}" if count > 1 else ""),
            next="the same command with --run last",
        )
    return [number]


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Without the garbage collector, since reading makes no cycles and it takes a fifth of the time."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        with interruptible():
            yield
    finally:
        if collecting:
            gc.enable()


@contextmanager
def interruptible() -> Iterator[None]:
    """SIGTERM and SIGHUP clean up as Ctrl-C does."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = dict[int, Any]()
    if threading.current_thread() is threading.main_thread():
        before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
