"""Steps while they are read: a file a series, in order of steps, so that several series can be merged by step."""

import heapq
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np
from msgspec import json

from steelyard.accounting.steady import MARKS, Floats, Whole
from steelyard.records.rows import StepRows
from steelyard.records.step import Step, to_line

PARTS = ".parts"
"""Where they lie in the run directory while it is made."""

_BUFFERED = 512
_FIRST = 5
_INDEX_EVERY = 4096
_MERGED = 1 << 14
"""Bytes of a series that are held while it is merged with others."""
_TAIL = 1 << 19
"""Bytes: some thousand steps."""
_STEP = re.compile(rb'\{"step":(\d+)')


@dataclass(slots=True)
class Part:
    """The steps of one series of one file."""

    path: Path
    file: int
    """Which of the given files."""
    label: str
    rows: int = 0
    first_step: int = 0
    last_step: int = 0
    first_time: str | None = None
    last_time: str | None = None
    first_losses: list[tuple[int, float | None]] = field(default_factory=list)
    _pending: list[bytes] = field(default_factory=list)
    _index: list[tuple[int, int]] = field(default_factory=list)
    _written: int = 0

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
        self.first_losses.append((step.step, step.loss))

    def extend_by(self, steps: StepRows) -> None:
        """Many steps, which follow these."""
        for step in islice(steps, max(0, _FIRST - self.rows)):
            self._begin(step)
        last = steps[-1]
        self.rows += len(steps)
        self.last_step, self.last_time = last.step, last.time
        self._pending.append(steps.lines())
        self.flush()

    def extend(self, other: "Part") -> None:
        """The steps of another part, which follow these."""
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
        """Write what is pending."""
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
        """Forget the steps from `step` on; how many there were."""
        self.flush()
        if step <= self.first_step:
            dropped, self.rows = self.rows, 0
            self._truncate(0)
            self.first_losses.clear()
            self._index.clear()
            return dropped
        start = 0
        for at in range(len(self._index) - 1, -1, -1):  # the last indexed place that lies before the step
            offset = self._index[at][1]
            if (number := self._step_at(offset)) is not None and number < step:
                start = offset
                break
        kept, dropped = start, 0
        with self.path.open("rb") as stream:
            stream.seek(start)
            for line in stream:
                if _number(line) < step:
                    kept += len(line)
                else:
                    dropped += 1
        self._truncate(kept)
        self._index = [(row, offset) for row, offset in self._index if offset < kept]
        self.rows -= dropped
        self.last_step = step - 1
        return dropped

    def _step_at(self, offset: int) -> int | None:
        with self.path.open("rb") as stream:
            stream.seek(offset)
            line = stream.readline()
        return _number(line) if line else None

    def _truncate(self, length: int) -> None:
        os.truncate(self.path, length)
        self._written = length

    def remove(self) -> None:
        """Forget all of it."""
        self._pending.clear()
        self.path.unlink(missing_ok=True)

    def last_times(self) -> tuple[Whole, Floats]:
        """Its last steps and the time each took, but for those whose time speaks of something else."""
        with self.path.open("rb") as stream:
            stream.seek(max(0, self.path.stat().st_size - _TAIL))
            lines = stream.readlines()
        if len(lines) < self.rows:
            del lines[0]  # it may be cut
        read = map(json.decode, lines)
        last = [one for one in read if not any(flag in MARKS for flag in one["flags"])]
        steps, seconds = [one["step"] for one in last], [one.get("step_time_s") for one in last]
        return np.array(steps, dtype=np.int64), np.array(seconds, dtype=np.float64)

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Its steps as written, with their numbers."""
        at, lines = 0, [b""]
        while lines:  # not kept open either, since all series are merged at once
            with self.path.open("rb") as stream:
                stream.seek(at)
                lines = stream.readlines(_MERGED)
                at = stream.tell()
            yield from ((_number(line), line) for line in lines)


def _number(line: bytes) -> int:
    found = _STEP.match(line)
    assert found is not None, "a record starts with its step"
    return int(found[1])


def merged(parts: Iterable[Part]) -> Iterator[tuple[int, bytes]]:
    """The steps of series that ran side by side, by step: of each the first series' that has it."""
    streams = [((step, order, line) for step, line in part.lines()) for order, part in enumerate(parts)]
    last = -1
    for step, _, line in heapq.merge(*streams, key=lambda one: one[:2]):
        if step != last:
            last = step
            yield step, line
