"""Steps during reading, in a file per series; then merged into one run by attempt and step."""

import heapq
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np
from msgspec import json

from steelyard.accounting.arrays import Floats, Whole
from steelyard.accounting.steady import MARKS
from steelyard.accounting.stragglers import stragglers
from steelyard.records.rows import StepRows
from steelyard.records.step import Event, Step, to_line
from steelyard.records.writer import NODES, STEPS, in_series

PARTS = ".parts"
"""Folder for these files in the run directory, until the run is complete."""

_BUFFERED = 512
_FIRST = 5
_INDEX_EVERY = 4096
_MERGED = 1 << 14
"""Bytes of a series in memory during a merge."""
_TAIL = 1 << 19
"""Bytes, for thousands of steps."""
OF_A_NODE = re.compile(r"(?:node|host|rank|worker|process|proc|task|gpu)[-_]?\d+", re.IGNORECASE)
_STEP = re.compile(rb'\{"step":(\d+)')


@dataclass(slots=True)
class Part:
    """The steps of one series of one file."""

    path: Path
    file: int
    """Index of the file."""
    label: str
    rows: int = 0
    first_step: int = 0
    first_line: int = 0
    last_step: int = 0
    first_time: str | None = None
    last_time: str | None = None
    first_losses: list[tuple[int, float | None]] = field(default_factory=list)
    _pending: list[bytes] = field(default_factory=list)
    _index: list[tuple[int, int]] = field(default_factory=list)
    _written: int = 0

    @property
    def has_losses(self) -> bool:
        return any(loss is not None for _, loss in self.first_losses)

    def append(self, step: Step) -> None:
        if self.rows < _FIRST:
            self._begin(step)
        self.rows += 1
        self.last_step, self.last_time = step.step, step.time
        self._pending.append(to_line(step))
        if len(self._pending) >= _BUFFERED:
            self.flush()

    def _begin(self, step: Step) -> None:
        if not self.first_losses:
            self.first_step, self.first_time = step.step, step.time
            self.first_line = step.source.line if step.source else 0
        self.first_losses.append((step.step, step.loss))

    def extend_by(self, steps: StepRows) -> None:
        """Append many steps."""
        for step in islice(steps, max(0, _FIRST - self.rows)):
            self._begin(step)
        last = steps[-1]
        self.rows += len(steps)
        self.last_step, self.last_time = last.step, last.time
        self._pending.append(steps.lines())
        self.flush()

    def extend(self, other: "Part") -> None:
        """Append the steps of another part."""
        if not other.rows:
            other.path.unlink(missing_ok=True)
            return
        self.flush()
        with other.path.open("rb") as source, self.path.open("ab") as stream:
            shutil.copyfileobj(source, stream, 1 << 20)
            self._written += source.tell()
        if not self.rows:
            self.first_step, self.first_time = other.first_step, other.first_time
        self.rows += other.rows
        self.last_step, self.last_time = other.last_step, other.last_time
        other.path.unlink()

    def flush(self) -> None:
        """Write pending steps."""
        if not self._pending:
            self.path.touch()
            return
        if not self._index or self.rows - self._index[-1][0] >= _INDEX_EVERY:
            self._index.append((self.rows, self._written))
        data = b"".join(self._pending)
        self._pending.clear()
        with self.path.open("ab") as stream:  # not kept open: a log may have thousands of series
            stream.write(data)
        self._written += len(data)

    def drop_from(self, step: int) -> int:
        """Remove the steps from `step` on; return how many."""
        self.flush()
        if step <= self.first_step:
            dropped, self.rows = self.rows, 0
            self._truncate(0)
            self.first_losses.clear()
            return dropped
        kept = next((offset for _, offset in reversed(self._index) if self._starts_before(offset, step)), 0)
        dropped = 0
        with self.path.open("rb") as stream:
            stream.seek(kept)
            for line in stream:
                if _number(line) < step:
                    kept += len(line)
                else:
                    dropped += 1
        self._truncate(kept)
        self.rows -= dropped
        self.last_step = step - 1
        return dropped

    def _starts_before(self, offset: int, step: int) -> bool:
        with self.path.open("rb") as stream:
            stream.seek(offset)
            line = stream.readline()
        return bool(line) and _number(line) < step

    def _truncate(self, length: int) -> None:
        os.truncate(self.path, length)
        self._written = length
        self._index = [(row, offset) for row, offset in self._index if offset < length]

    def last_times(self) -> tuple[Whole, Floats]:
        """The last unmarked steps and their step times."""
        with self.path.open("rb") as stream:
            stream.seek(max(0, self.path.stat().st_size - _TAIL))
            lines = stream.readlines()
        if len(lines) < self.rows:
            del lines[0]  # may be incomplete
        read = map(json.decode, lines)
        last = [row for row in read if not any(flag in MARKS for flag in row["flags"])]
        steps, seconds = [row["step"] for row in last], [row.get("step_time_s") for row in last]
        return np.array(steps, dtype=np.int64), np.array(seconds, dtype=np.float64)

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """The written steps with their numbers."""
        at, lines = 0, [b""]
        while lines:  # reopened each time, since all series are merged at once
            with self.path.open("rb") as stream:
                stream.seek(at)
                lines = stream.readlines(_MERGED)
                at = stream.tell()
            yield from ((_number(line), line) for line in lines)


def _number(line: bytes) -> int:
    match = _STEP.match(line)
    assert match is not None, "a record starts with its step"
    return int(match[1])


def merged(parts: Iterable[Part]) -> Iterator[tuple[int, bytes]]:
    """The steps of concurrent series; each step from the first series that has it."""
    streams = [((step, order, line) for step, line in part.lines()) for order, part in enumerate(parts)]
    last = -1
    for step, _, line in heapq.merge(*streams, key=lambda entry: entry[:2]):
        if step != last:
            last = step
            yield step, line


def side_by_side(parts: Sequence[Part], names: Sequence[str]) -> list[list[Part]]:
    """The attempts of a run in order, each with its concurrent series."""
    timed = all(part.first_time and part.last_time for part in parts)
    ordered = sorted(parts, key=lambda part: ((part.first_time or "") if timed else "", part.first_step, part.file))
    attempts: list[list[Part]] = []
    for part in ordered:
        if attempts and any(_together(other, part, timed, names) for other in attempts[-1]):
            attempts[-1].append(part)
        else:
            attempts.append([part])
    return attempts


def _together(earlier: Part, later: Part, timed: bool, names: Sequence[str]) -> bool:
    """Whether two series belong to one attempt: same file, overlapping time, names of two nodes, or equal losses."""
    if earlier.file == later.file:
        return True
    if timed:
        return (later.first_time or "") <= (earlier.last_time or "")
    nodes = [OF_A_NODE.findall(names[part.file])[-1:] for part in (earlier, later)]
    if all(nodes) and nodes[0] != nodes[1]:
        return True
    losses = dict(later.first_losses)
    shared = [loss == losses[step] for step, loss in earlier.first_losses if step in losses]
    return bool(shared) and all(shared)


def merge(parts: Sequence[Part], run: Path, names: Sequence[str]) -> tuple[int, list[Event]]:
    """Write steps.jsonl, and nodes.jsonl for several series; return the number of steps, and events."""
    written = [part for part in parts if part.rows]
    if len(written) == 1:
        written[0].path.replace(run / STEPS)
        return written[0].rows, []
    for part in written:
        if part.path == run / STEPS:  # a followed log with a second series
            part.path = part.path.rename(run / PARTS / STEPS)
    attempts = side_by_side(written, names)
    events: list[Event] = []
    count = 0
    with (run / STEPS).open("wb") as steps:
        for at, attempt in enumerate(attempts):
            lead = sorted(attempt, key=lambda part: (not part.has_losses, -part.rows))
            before = min((part.first_step for later in attempts[at + 1 :] for part in later), default=None)
            for step, line in merged(lead):
                if before is not None and step >= before:
                    break
                steps.write(line)
                count += 1
            if before is not None:
                last = max(part.last_step for part in attempt)
                after = "the last record of each step is used" if last >= before else "it continues the one before"
                message = f"attempt {at + 2} starts at step {before:,}, the one before reached step {last:,}; {after}"
                events.append(Event(kind="restart", message=message, step=before))
    if any(len(attempt) > 1 for attempt in attempts):
        _write_nodes(attempts[-1], run, names)
        events += _slower(attempts[-1], names)
    return count, events


def _slower(attempt: Sequence[Part], names: Sequence[str]) -> list[Event]:
    """Events of nodes that are slower in the last steps."""
    slow = stragglers({_name(part, names): part.last_times() for part in attempt})
    return [Event(kind="nodes_differ", message=node.words(), node=node.node, details=node.details()) for node in slow]


def _name(part: Part, names: Sequence[str]) -> str:
    return part.label or names[part.file]


def _write_nodes(attempt: Sequence[Part], run: Path, names: Sequence[str]) -> None:
    """Write all series of the last attempt, each record with its series."""
    with (run / NODES).open("wb") as nodes:
        for part in attempt:
            for _, line in part.lines():
                nodes.write(in_series(_name(part, names), line))
