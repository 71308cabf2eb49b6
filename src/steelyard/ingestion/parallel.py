"""Reads a long plain log in pieces side by side: the same reader, each piece started a little before its beginning.

What holds for a plain log is what lets its pieces be read apart: one process prints its steps, in order, under one set
of settings, and no line holds a secret. A piece in which anything else is found (a restart, other settings, a second
series, a secret) makes the whole file be read again in one go.
"""

import copy
import gc
import os
import signal
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from steelyard.frameworks.logs.cutter import LONGEST, LineCutter
from steelyard.frameworks.logs.reader import LogReader
from steelyard.frameworks.logs.series import Job
from steelyard.frameworks.logs.settings import Setting, same
from steelyard.ingestion.knowledge import Knowledge
from steelyard.ingestion.parts import Part
from steelyard.ingestion.sources import send
from steelyard.records.rows import StepRows
from steelyard.records.step import Event, Step

WORTH_IT = 1 << 26
"""Bytes below which starting processes takes longer than reading."""

HEAD_BYTES = 1 << 23
"""What is looked at first, to know the settings and how far apart steps are."""

PIECE_BYTES = 1 << 25
_BEFORE = 1 << 18
_MOST_BEFORE = 1 << 24
"""Bytes before a piece in which its last step is looked for; a log with fewer steps is read in one go."""
_MOST_EVENTS = 10_000
"""Of a piece: a plain log has a few."""
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class Piece:
    """One stretch of a log, from the start of a line to the end of one."""

    path: str
    start: int
    end: int
    first_line: int
    """The number of its first line, less one."""
    name: str
    """What evidence calls the log."""
    framework: str | None
    job: Job
    interval: int
    label: str
    settings: tuple[tuple[str, object], ...]
    """What is known to be in force; anything else is no plain log."""
    to: Path
    """Where its steps are written."""


@dataclass(slots=True)
class PieceResult:
    """What a piece says beside its steps."""

    plain: bool
    """Whether it is what can be read apart."""
    part: Part
    lines: int = 0
    steps: int = 0
    unread: int = 0
    cut: bool = False
    """Whether it ends amid a step."""
    events: list[Event] = field(default_factory=list)
    seen: dict[str, str] = field(default_factory=dict)
    hinted: dict[str, None] = field(default_factory=dict)
    others: dict[str, None] = field(default_factory=dict)


class _PieceSink:
    """Takes what a piece says; deaf while the lines before it are read."""

    def __init__(self, piece: Piece, result: PieceResult) -> None:
        self._settings, self._label, self._result = dict(piece.settings), piece.label, result
        self.deaf = True
        self.stepped = False

    def step(self, series: str, step: Step) -> None:
        if self._takes(series):
            self._result.part.append(step)

    def steps(self, series: str, steps: StepRows) -> None:
        if self._takes(series):
            self._result.part.extend_by(steps)

    def _takes(self, series: str) -> bool:
        self.stepped = True
        self._result.plain &= series == self._label
        return not self.deaf and series == self._label

    def restart(self, series: str, step: int) -> None:
        self._result.plain = False

    def event(self, event: Event) -> None:
        if event.kind in ("restart", "repeated", "resumed"):
            self._result.plain = False
        if not self.deaf:
            self._result.events.append(event)
            self._result.plain &= len(self._result.events) <= _MOST_EVENTS

    def setting(self, setting: Setting) -> None:
        key, value = setting.key, setting.value
        if value is None or key not in self._settings or not same(key, self._settings[key], value):
            self._result.plain = False


def read_piece(piece: Piece) -> PieceResult:
    """Read one piece, in a process of its own."""
    result = PieceResult(True, Part(piece.to, 0, piece.label))
    sink = _PieceSink(piece, result)
    with Path(piece.path).open("rb") as file:
        reader = LogReader(piece.name, sink, piece.framework, piece.job)
        reader.expect(piece.interval)
        before = _BEFORE
        while not sink.stepped:
            start = max(0, piece.start - before)
            reader.feed(_lines_before(file.fileno(), start, piece.start))
            result.plain &= before < _MOST_BEFORE
            if start == 0 or not result.plain:
                break
            before *= 4
        reader.stand_at(piece.first_line)
        sink.deaf = False
        file.seek(piece.start)
        cutter, left = LineCutter(), piece.end - piece.start
        while left and result.plain and (block := file.read(min(_BLOCK, left))):
            left -= len(block)
            reader.feed(cutter.feed(block))
            result.plain &= not reader.redacted and cutter.whole
    unread = reader.unread
    for rest in cutter.rest():
        reader.feed([rest])
    result.cut = reader.unread > unread
    result.plain &= not reader.redacted
    reader.end()
    result.part.flush()
    result.lines, result.steps, result.unread = reader.line - piece.first_line, result.part.rows, reader.unread
    result.seen, result.hinted, result.others = reader.seen, reader.hinted, reader.others
    return result


def _lines_before(descriptor: int, start: int, end: int) -> Sequence[bytes]:
    data = os.pread(descriptor, end - start, start)
    return data.split(b"\n")[1 if start else 0 : -1]


class Head:
    """Takes what the start of a log says, and keeps it until the rest is known to be plain."""

    def __init__(self, knowledge: Knowledge, to: Path, file: int) -> None:
        self._knowledge, self.job = copy.deepcopy(knowledge), Job()
        self._knowledge.update(self.job)
        self._to, self._file = to, file
        self.part: Part | None = None
        self.entries: list[Setting | Event] = []
        self.plain = True

    def _part_of(self, series: str) -> Part:
        if self.part is None:
            self.part = Part(self._to, self._file, series)
        self.plain = self.plain and self.part.label == series
        return self.part

    def step(self, series: str, step: Step) -> None:
        self._part_of(series).append(step)

    def steps(self, series: str, steps: StepRows) -> None:
        self._part_of(series).extend_by(steps)

    def restart(self, series: str, step: int) -> None:
        self.plain = False

    def event(self, event: Event) -> None:
        self.entries.append(event)

    def setting(self, setting: Setting) -> None:
        self.entries.append(setting)
        self._knowledge.learn(setting, self.job)


@dataclass(frozen=True, slots=True)
class Plan:
    """A log that may be read in pieces: its head, which was read, then the pieces."""

    head: Head
    reader: LogReader
    """Of the head."""
    part: Part
    """Where the head's steps are, and those of the pieces go."""
    pieces: tuple[Piece, ...]


def plan(path: str, name: str, framework: str | None, knowledge: Knowledge, folder: Path, file: int) -> Plan | None:
    """How a log is read in pieces; None where it is short, or its head shows that it is no plain one."""
    size = Path(path).stat().st_size
    if size < WORTH_IT:
        return None
    head = Head(knowledge, folder / f"head{file}", file)
    reader = LogReader(name, head, framework, head.job)
    with Path(path).open("rb") as log:
        data = log.read(HEAD_BYTES)
    length = data.rfind(b"\n") + 1
    reader.feed(data[:length].split(b"\n")[:-1])
    series, part = reader.one_series(), head.part
    stretches = _boundaries(path, length, size) if length else []
    if series is None or part is None or not head.plain or reader.redacted_any or not stretches:
        if part is not None:
            part.path.unlink(missing_ok=True)
        return None
    settings = tuple({entry.key: entry.value for entry in head.entries if isinstance(entry, Setting)}.items())
    common = Piece(path, 0, 0, 0, name, framework, head.job, series.interval or 1, series.label, settings, folder)
    pieces = tuple(
        replace(common, start=start, end=end, to=folder / f"piece{at}") for at, (start, end) in enumerate(stretches)
    )
    return Plan(head, reader, part, pieces)


def read_all(readers: ProcessPoolExecutor, plan: Plan, keep: Path) -> list[PieceResult] | None:
    """What every piece says, in order; None where one of them is not plain.

    While later pieces are read, the steps of earlier ones join the head's and their bytes the log that is kept.
    """
    line = plan.reader.line
    waiting = []
    for piece in plan.pieces:  # lines are counted here while the pieces before are read there
        waiting.append(readers.submit(read_piece, replace(piece, first_line=line)))
        line += _count_lines(piece)
    results = []
    with Path(plan.pieces[0].path).open("rb") as log, keep.open("wb") as kept:
        for piece, future in zip(plan.pieces, waiting, strict=True):
            results.append(future.result())
            if not results[-1].plain:
                readers.shutdown(wait=True, cancel_futures=True)
                for each in plan.pieces:
                    each.to.unlink(missing_ok=True)
                plan.part.path.unlink(missing_ok=True)
                return None
            plan.part.extend(results[-1].part)
            send(log, kept, piece.end)
    return results


def _boundaries(path: str, start: int, end: int) -> list[tuple[int, int]]:
    """Stretches of a file from `start` on, of whole lines each; a line longer than we read makes none."""
    stretches: list[tuple[int, int]] = []
    with Path(path).open("rb") as file:
        while start < end:
            stop = min(start + PIECE_BYTES, end)
            if stop < end:
                file.seek(stop)
                newline = file.read(LONGEST).find(b"\n")
                if newline < 0:
                    return []
                stop += newline + 1
            stretches.append((start, stop))
            start = stop
    return stretches


def _count_lines(piece: Piece) -> int:
    total, left = 0, piece.end - piece.start
    with Path(piece.path).open("rb") as file:
        file.seek(piece.start)
        while left and (block := file.read(min(_BLOCK, left))):
            total += block.count(b"\n")
            left -= len(block)
    return total


def pool() -> ProcessPoolExecutor:
    """As many readers as there are cores, two at least and eight at most; an interrupt is the caller's to handle."""
    return ProcessPoolExecutor(max(2, min(8, os.cpu_count() or 1)), initializer=_leave_interrupts)


def _leave_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.disable()
