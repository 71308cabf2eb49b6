"""Reads a long plain log in parallel pieces, each with the usual reader, started a little before the piece.

In a plain log one process prints its steps in order, with constant settings and without secrets, so pieces are
independent. If a piece contains anything else (a restart, changed settings, a second series, a secret), the whole file
is read again sequentially.
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
"""Bytes. For smaller files, starting processes takes longer than reading."""

HEAD_BYTES = 1 << 23
"""Bytes read first, for the settings and the log interval."""

PIECE_BYTES = 1 << 25
_BEFORE = 1 << 18
_MOST_BEFORE = 1 << 24
"""Bytes before a piece that are searched for the previous step; a log with fewer steps is read sequentially."""
_MOST_EVENTS = 10_000
"""Limit of events per piece; a plain log has few."""
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a log, of whole lines."""

    path: str
    start: int
    end: int
    first_line: int
    """The number of its first line, minus one."""
    name: str
    """The log's name in evidence."""
    framework: str | None
    job: Job
    interval: int
    label: str
    settings: tuple[tuple[str, object], ...]
    """Known settings; any other makes the log not plain."""
    to: Path
    """File for its steps."""


@dataclass(slots=True)
class PieceResult:
    """The content of a piece, except its steps."""

    plain: bool
    """Whether it belongs to a plain log."""
    part: Part
    lines: int = 0
    steps: int = 0
    unread: int = 0
    cut: bool = False
    """Whether it ends within a step line."""
    events: list[Event] = field(default_factory=list)
    seen: dict[str, str] = field(default_factory=dict)
    hinted: dict[str, None] = field(default_factory=dict)
    others: dict[str, None] = field(default_factory=dict)


class _PieceSink:
    """Receives the content of a piece; ignores the lines before it."""

    def __init__(self, piece: Piece, result: PieceResult) -> None:
        self._settings, self._label, self._result = dict(piece.settings), piece.label, result
        self.ignoring = True
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
        return not self.ignoring and series == self._label

    def restart(self, series: str, step: int) -> None:
        self._result.plain = False

    def event(self, event: Event) -> None:
        if event.kind in ("restart", "repeated", "resumed"):
            self._result.plain = False
        if not self.ignoring:
            self._result.events.append(event)
            self._result.plain &= len(self._result.events) <= _MOST_EVENTS

    def setting(self, setting: Setting) -> None:
        key, value = setting.key, setting.value
        if value is None or key not in self._settings or not same(key, self._settings[key], value):
            self._result.plain = False


def read_piece(piece: Piece) -> PieceResult:
    """Read one piece in its own process."""
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
        sink.ignoring = False
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
    """Receives the start of a log, until it is clear whether the log is plain."""

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
    """A log that can be read in pieces: its head, already read, and the pieces."""

    head: Head
    reader: LogReader
    """The reader of the head."""
    part: Part
    """The steps of the head, to which those of the pieces are added."""
    pieces: tuple[Piece, ...]


def plan(path: str, name: str, framework: str | None, knowledge: Knowledge, folder: Path, file: int) -> Plan | None:
    """How to read a log in pieces; None if it is short or not plain."""
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
    """The results of all pieces, in order; None if a piece is not plain.

    While later pieces are read, steps and bytes of earlier ones are appended to the run.
    """
    line = plan.reader.line
    waiting = []
    for piece in plan.pieces:  # count lines here while other processes read earlier pieces
        waiting.append(readers.submit(read_piece, replace(piece, first_line=line)))
        line += _count_lines(piece)
    results = []
    with Path(plan.pieces[0].path).open("rb") as log, keep.open("wb") as kept:
        for piece, future in zip(plan.pieces, waiting, strict=True):
            results.append(future.result())
            if not results[-1].plain:
                readers.shutdown(wait=True, cancel_futures=True)
                for unneeded in plan.pieces:
                    unneeded.to.unlink(missing_ok=True)
                plan.part.path.unlink(missing_ok=True)
                return None
            plan.part.extend(results[-1].part)
            send(log, kept, piece.end)
    return results


def _boundaries(path: str, start: int, end: int) -> list[tuple[int, int]]:
    """Parts of whole lines from `start` on; none if a line is too long."""
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
    """One process per core, 2 to 8; the caller handles interrupts."""
    return ProcessPoolExecutor(max(2, min(8, os.cpu_count() or 1)), initializer=_leave_interrupts)


def _leave_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.disable()
