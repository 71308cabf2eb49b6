"""The steps of a run as columns, read in one pass in bounded memory."""

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from steelyard.errors import InputError
from steelyard.records.reader import run_directory
from steelyard.records.step import COLUMNS, NONFINITE, Evidence, Step, StepNumber
from steelyard.records.strict import line_blocks, unreadable, unreadable_line
from steelyard.records.writer import NODES, STEPS

Floats = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Timestamps = npt.NDArray[np.datetime64]

_CHUNK_BYTES = 1 << 20
_NODE_CHUNK_BYTES = 1 << 24
"""Larger, since each of many nodes has only some rows in a chunk."""
_MOST_INT32 = 2**31 - 1
_MOST_SERIES = 1 << 17
"""Limit of series: ranks of one run."""
_WORTH_A_PROCESS = 1 << 26


@dataclass(frozen=True, slots=True)
class Column:
    """One field over all steps. A missing value is NaN and not `given`; a recorded NaN is `given`."""

    values: Floats
    given: Mask

    @property
    def finite(self) -> Mask:
        finite: Mask = np.isfinite(self.values)
        return finite

    @property
    def nonfinite(self) -> Mask:
        """Recorded as NaN or infinity."""
        return self.given & ~self.finite


@dataclass(frozen=True, slots=True)
class StepTable:
    """The steps of a run by column."""

    step: Whole
    steps_covered: Whole
    columns: Mapping[str, Column]
    """By the names in `COLUMNS`, which are also attributes."""
    memory_kinds: tuple[str, ...]
    """Kinds of memory measurement, in order of appearance."""
    time: Timestamps
    """Timestamp of the log line; NaT if not recorded."""
    flagged: dict[str, list[int]]
    source_files: tuple[str, ...]
    source_file: Whole
    """Index into `source_files`; -1 if not recorded."""
    source_line: Whole
    """In 32 bits if every line number fits."""

    def __len__(self) -> int:
        return len(self.step)

    def __getattr__(self, name: str) -> Column:
        if name not in COLUMNS:
            raise AttributeError(name)
        return self.columns[name]

    def to_pandas(self) -> Any:
        """A pandas DataFrame with a row per step; missing values are NaN."""
        import pandas  # optional

        values = {name: column.values for name, column in self.columns.items()}
        return pandas.DataFrame({"step": self.step, "steps_covered": self.steps_covered, **values, "time": self.time})

    def flag(self, name: str) -> Mask:
        rows = np.zeros(len(self.step), dtype=np.bool_)
        rows[self.flagged.get(name, [])] = True
        return rows

    def evidence(self, row: int) -> Evidence:
        """The log line of row `row` (from 0), or its line of steps.jsonl."""
        if self.source_file[row] < 0:
            return Evidence(STEPS, row + 1)
        return Evidence(self.source_files[self.source_file[row]], int(self.source_line[row]))


def table(run: Path | str) -> StepTable:
    """Read the steps of a run; an incomplete last line is ignored."""
    path = run_directory(run) / STEPS
    parts = _Parts()
    for lines in line_blocks(path, _CHUNK_BYTES):
        try:
            rows = _DECODER.decode_lines(lines)
        except (ValueError, RecursionError):  # msgspec's errors and invalid UTF-8 are ValueErrors
            raise _unreadable(path, parts.rows, lines, _DECODER) from None
        if len(rows) < lines.count(b"\n"):  # the decoder skips empty lines, which would shift the evidence
            raise _unreadable(path, parts.rows, lines, _DECODER)
        parts.add(rows)
    return parts.joined()


def node_tables(run: Path | str) -> dict[str, StepTable]:
    """The steps of each node or rank by its name; empty if only one reports."""
    path = Path(run) / NODES
    parts: dict[str, _Parts] = {}
    before = 0
    for lines in line_blocks(path, _NODE_CHUNK_BYTES):
        grouped: dict[str, list[Any]] = {}
        try:
            for row in _NODE_DECODER.decode_lines(lines):
                grouped.setdefault(row.series, []).append(row)
        except (ValueError, RecursionError):
            raise _unreadable(path, before, lines, _NODE_DECODER) from None
        for series, rows in grouped.items():
            parts.setdefault(series, _Parts()).add(rows)
        if len(parts) > _MOST_SERIES:
            raise unreadable(path, f"more than {_MOST_SERIES:,} series")
        before += lines.count(b"\n")
    return {series: part.joined() for series, part in parts.items()}


def tables(runs: Sequence[Path]) -> list[StepTable]:
    """The steps of several runs, read in parallel if they are long."""
    sizes = [(run / STEPS).stat().st_size if (run / STEPS).is_file() else 0 for run in runs]
    workers = min(len(runs), os.cpu_count() or 1)
    if workers < 2 or sum(sizes) - max(sizes) < _WORTH_A_PROCESS:
        return [table(run) for run in runs]
    with ProcessPoolExecutor(workers) as pool:
        return list(pool.map(table, runs))


_OTHERS = {"steps_covered": 1, "memory_kind": None, "time": None, "source": None, "flags": ()}
_FIELDS: list[Any] = [
    ("step", StepNumber),
    *((name, Step.__annotations__[name], default) for name, default in {**dict.fromkeys(COLUMNS), **_OTHERS}.items()),
    ("nonfinite", dict[str, Literal["NaN", "Infinity", "-Infinity"]] | None, None),
]
_Row = msgspec.defstruct("_Row", _FIELDS, gc=False)
"""The fields of a step that become columns, with their types."""
_NodeRow = msgspec.defstruct("_NodeRow", [("series", str), *_FIELDS], gc=False)

_DECODER: msgspec.json.Decoder[Any] = msgspec.json.Decoder(_Row)
_NODE_DECODER: msgspec.json.Decoder[Any] = msgspec.json.Decoder(_NodeRow)


class _Growing:
    """A growing column: one value while all are equal, then an array."""

    __slots__ = ("_same", "_values", "rows")

    def __init__(self, dtype: npt.DTypeLike) -> None:
        self.rows = 0
        self._same: npt.NDArray[Any] = np.zeros(1, dtype=dtype)
        self._values: npt.NDArray[Any] | None = None

    def add(self, values: npt.NDArray[Any]) -> None:
        begin, end = self.rows, self.rows + len(values)
        if self._same.dtype == np.int32 and values.max() > _MOST_INT32:
            self._same = self._same.astype(np.int64)
            self._values = None if self._values is None else self._values.astype(np.int64)
        values = values.astype(self._same.dtype, copy=False)
        if self._values is None:
            if not begin:
                self._same = values[:1].copy()
            if (_bits(values) == _bits(self._same)).all():
                self.rows = end
                return
            self._values = np.empty(2 * end, dtype=self._same.dtype)
            self._values[:begin] = self._same
        elif end > len(self._values):
            wider = np.empty(2 * end, dtype=self._values.dtype)
            wider[:begin] = self._values[:begin]
            self._values = wider
        self._values[begin:end] = values
        self.rows = end

    def joined(self) -> npt.NDArray[Any]:
        if self._values is None:
            return np.broadcast_to(self._same[0], (self.rows,))
        return self._values[: self.rows]


def _bits(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Values as bits, so that NaN equals NaN."""
    return values.view(np.int64) if values.dtype.itemsize == 8 else values


class _Parts:
    """Columns that grow by chunks."""

    def __init__(self) -> None:
        self.rows = 0
        self._values = {name: _Growing(np.float64) for name in COLUMNS}
        self._given = {name: _Growing(np.bool_) for name in COLUMNS}
        self._step, self._covered = _Growing(np.int64), _Growing(np.int64)
        self._line, self._file = _Growing(np.int32), _Growing(np.int64)
        self._files: dict[str, int] = {}
        self._kinds: dict[str | None, None] = {}
        self._flagged: dict[str, list[int]] = {}
        self._time = _Growing(_TIMESTAMP)

    def add(self, rows: Sequence[Any]) -> None:
        named = [(at, row.nonfinite) for at, row in enumerate(rows) if row.nonfinite]
        for name in COLUMNS:
            values = np.array(list(map(attrgetter(name), rows)), dtype=np.float64)
            given = ~np.isnan(values)
            for at, words in named:
                if name in words:
                    values[at], given[at] = NONFINITE[words[name]], True
            self._values[name].add(values)
            self._given[name].add(given)
        self._step.add(np.array([row.step for row in rows], dtype=np.int64))
        self._covered.add(np.array([row.steps_covered for row in rows], dtype=np.int64))
        self._kinds.update(dict.fromkeys(map(attrgetter("memory_kind"), rows)))
        self._add_sources([row.source for row in rows])
        self._time.add(_timestamps([row.time for row in rows]))
        for place, flags in [(at, row.flags) for at, row in enumerate(rows, start=self.rows) if row.flags]:
            for flag in flags:
                self._flagged.setdefault(flag, []).append(place)
        self.rows += len(rows)

    def _add_sources(self, sources: Sequence[Evidence | None]) -> None:
        self._line.add(np.array([at.line if at else 0 for at in sources], dtype=np.int64))
        files = [at.file if at else None for at in sources]
        index = {name: -1 if name is None else self._files.setdefault(name, len(self._files)) for name in set(files)}
        if len(index) == 1:
            self._file.add(np.full(len(files), index[files[0]]))
        else:
            self._file.add(np.array([index[name] for name in files], dtype=np.int64))

    def joined(self) -> StepTable:
        return StepTable(
            step=self._step.joined(),
            steps_covered=self._covered.joined(),
            columns={name: Column(self._values[name].joined(), self._given[name].joined()) for name in COLUMNS},
            memory_kinds=tuple(kind for kind in self._kinds if kind is not None),
            time=self._time.joined(),
            flagged=self._flagged,
            source_files=tuple(self._files),
            source_file=self._file.joined(),
            source_line=self._line.joined(),
        )


_TIMESTAMP = "datetime64[us]"


def _timestamps(texts: Sequence[str | None]) -> Timestamps:
    """Timestamps without time zone, which is constant within a log; NaT for invalid ones."""
    local = ["NaT" if text is None else text.rstrip("Z").partition("+")[0] for text in texts]
    try:
        return np.array(local, dtype=_TIMESTAMP)
    except ValueError:
        return np.array([_timestamp(text) for text in local], dtype=_TIMESTAMP)


def _timestamp(text: str) -> np.datetime64:
    try:
        return np.datetime64(text, "us")
    except ValueError:
        return np.datetime64("NaT", "us")


def _unreadable(path: Path, before: int, lines: bytes, decoder: msgspec.json.Decoder[Any]) -> InputError:
    for at, line in enumerate(lines.split(b"\n")[:-1], start=before + 1):
        try:
            decoder.decode(line)
        except UnicodeDecodeError:
            return unreadable_line(path, f"line {at}", "not UTF-8")
        except RecursionError:
            return unreadable_line(path, f"line {at}", "nested too deeply")
        except ValueError as reason:
            return unreadable_line(path, f"line {at}", reason)
    return unreadable(path, "the lines are readable one by one, but not together")
