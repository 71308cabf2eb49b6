"""CSV and JSON lines with a row per step; --columns assigns columns to step fields."""

import csv
import difflib
import io
import json
import shlex
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from steelyard.errors import InputError
from steelyard.frameworks.logs.cutter import LONGEST
from steelyard.ingestion.importers import Columns, Imported
from steelyard.ingestion.importers.fields import KNOWN, REPORTED, readable, step_of, tags, unread
from steelyard.ingestion.sources import BrokenFileError, keep_copy, lines, open_source
from steelyard.records.step import Event, Evidence, Step

_SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson")
_MOST_SHOWN = 12
"""Columns in a message."""
_MOST_COMPARED = 1000
"""Limit of columns whose names are compared with step fields."""
_LONGEST_NAME = 100
"""Characters of a column name in a message."""
_LONGEST_ROW = 4 * LONGEST
"""Characters of a CSV row, whose quoted cells may span lines."""

keep = keep_copy


def recognizes(path: str, columns: Columns | None) -> bool:
    return columns is not None or plain_name(path).endswith(_SUFFIXES)


def read(path: str, kept: str, columns: Columns | None, most_unpacked: int) -> Imported:
    texts = text_lines(path, most_unpacked)
    try:
        start = next(texts, "")
        as_json = is_json_lines(path, start)
        whole = chain([start], texts)
        rows = json_rows(whole) if as_json else csv_rows(path, whole, _delimiter(path, start))
        first = next(rows, None)
    except BrokenFileError as broken:
        raise _without_rows(path, f"{broken} before its first row") from None
    if first is None:
        raise _without_rows(path, f"{path} has no rows")
    names = [] if isinstance(first[1], str) else list(first[1])
    chosen = _chosen(names, columns or {})
    _check(path, chosen, names, columns)
    dialect = "jsonl" if as_json else "csv"
    return Imported(dialect, None, steps_of(chain([first], rows), chosen, kept), events=_unread(names, chosen))


def _without_rows(path: str, message: str) -> InputError:
    fix = f"head {shlex.quote(path)}"
    return InputError(message, key="PATH", value=path, expected="one row per step", next=fix)


Row = tuple[int, Mapping[str, Any] | str]
"""Line number, and values by column, or why the line is unreadable."""


def plain_name(path: str) -> str:
    """The file name in lower case, without the suffix of compression."""
    name = Path(path).name.lower()
    return name.removesuffix(".gz").removesuffix(".zst")


def text_lines(path: str, most_unpacked: int) -> Iterator[str]:
    """The lines of a file as text, with newlines; BrokenFileError if it is truncated."""
    with open_source(path, most_unpacked) as source:
        for number, line in enumerate(lines(source)):
            text = line.decode("utf-8", "replace")
            yield text if number else text.removeprefix("\ufeff")


def _delimiter(path: str, header: str) -> str:
    """A tab for .tsv, a semicolon if the header has one and no comma, else a comma."""
    if plain_name(path).endswith(".tsv"):
        return "\t"
    return ";" if ";" in header and "," not in header else ","


def is_json_lines(path: str, start: str) -> bool:
    name = plain_name(path)
    if name.endswith((".csv", ".tsv")):
        return False
    if name.endswith((".jsonl", ".ndjson")):
        return True
    return start.startswith("{")


def csv_rows(path: str, texts: Iterable[str], delimiter: str) -> Iterator[Row]:
    taken = 0

    def bounded() -> Iterator[str]:
        nonlocal taken
        for text in texts:
            taken += len(text)
            if len(text) >= LONGEST or taken > _LONGEST_ROW:
                raise csv.Error(f"longer than {LONGEST >> 20} MiB")
            yield from io.StringIO(text, newline="") if "\r" in text else (text,)  # a lone \r also ends a row

    reader = csv.reader(bounded(), delimiter=delimiter, strict=True)
    try:
        header = [name.strip() for name in next(reader, [])]
        for row in reader:
            taken = 0
            if not any(cell.strip() for cell in row):
                continue
            if len(row) == len(header):
                yield reader.line_num, dict(zip(header, row, strict=True))
            else:
                yield reader.line_num, f"{len(row)} columns, but {len(header)} in the header"
    except csv.Error as reason:
        raise InputError(
            f"{path}: invalid CSV at line {reader.line_num + 1} ({reason})",
            key="PATH",
            value=path,
            expected="comma-separated rows, one per line",
            next=f"remove the row, then steelyard ingest {shlex.quote(path)}",
        ) from None


def json_rows(texts: Iterable[str]) -> Iterator[Row]:
    for number, text in enumerate(texts, start=1):
        if not text.strip():
            continue
        try:
            row = json.loads(text)
        except (ValueError, RecursionError):
            row = None
        problem = f"longer than {LONGEST >> 20} MiB" if len(text) >= LONGEST else "not a JSON object"
        yield number, row if isinstance(row, dict) else problem


def _chosen(names: list[str], columns: Columns) -> Columns:
    """The columns of --columns, and those named like a step field."""
    taken = {REPORTED.get(ours, ours) for ours in columns}
    own: dict[str, str] = {}
    for name in sorted(names, key=lambda name: name not in KNOWN):  # `loss` before `Loss`
        ours = name.lower()
        if ours in KNOWN and REPORTED.get(ours, ours) not in taken and name not in columns.values():
            own[ours] = name
            taken.add(REPORTED.get(ours, ours))
    return {**columns, **own}


def _unread(names: list[str], chosen: Columns) -> list[Event]:
    """A notice of the columns that are not read."""
    ignored = [readable(name[:_LONGEST_NAME]) for name in names if name not in chosen.values()]
    if not ignored:
        return []
    shown = ", ".join(ignored[:_MOST_SHOWN]) + (
        f" and {len(ignored) - _MOST_SHOWN} more" * (len(ignored) > _MOST_SHOWN)
    )
    meant = [f"{ours}={name}" for name in ignored[:_MOST_COMPARED] if (ours := _meant(name)) and ours not in chosen]
    example = shlex.quote(",".join(dict.fromkeys(meant[:3]))) if meant else "FIELD=COLUMN"
    return [Event(kind="unread_columns", message=f"{shown}; to read them, add --columns {example}")]


def _meant(name: str) -> str | None:
    """The step field that a column may be: only suggested."""
    known = {tag.lower(): ours for tag, ours in tags().items()}
    near = difflib.get_close_matches(name.lower(), KNOWN, n=1, cutoff=0.75)
    return known.get(name.lower()) or (near[0] if near else None)


def _check(path: str, chosen: Columns, names: list[str], columns: Columns | None) -> None:
    known = readable(", ".join(name[:_LONGEST_NAME] for name in names[:20])) or "none"
    missing = [theirs for theirs in chosen.values() if theirs not in names]
    if columns is not None and missing:
        raise InputError(
            f"--columns: {path} has no column {missing[0]!r}",
            key="--columns",
            value=missing[0],
            expected=f"one of {known}",
            next=f"--columns {_nearest(chosen, names)}",
        )
    if "step" not in chosen or len(chosen) < 2:
        first = readable(names[0][:_LONGEST_NAME]) if names else "step"
        raise InputError(
            f"{path}: columns of step and loss not found",
            key="--columns",
            value=known,
            expected=f"FIELD=COLUMN, with a field of {', '.join(KNOWN[:9])} …",
            next=f"steelyard ingest {path} --columns step={first},loss=…",
        )


def _nearest(chosen: Columns, names: list[str]) -> str:
    """The requested columns, with missing ones replaced by the nearest."""
    pairs = []
    for ours, theirs in chosen.items():
        near = difflib.get_close_matches(theirs, names[:_MOST_COMPARED], n=1, cutoff=0.4)
        pairs.append(f"{ours}={theirs if theirs in names else near[0] if near else '…'}")
    return shlex.quote(",".join(pairs))


def steps_of(rows: Iterable[Row], chosen: Columns, kept: str, zero_based: bool | None = None) -> Iterator[Step | Event]:
    """A step per row, or an event if it is unreadable; steps count from 0 if the first one is 0."""
    number = 0
    try:
        for number, row in rows:
            if zero_based is None and not isinstance(row, str):
                first = row.get(chosen["step"])
                zero_based = isinstance(first, str | int | float) and str(first).strip() in ("0", "0.0")
            at, place = Evidence(kept, number), f"line {number}"
            if isinstance(row, str):
                yield unread(at, place, row)
            else:
                values = {ours: row.get(theirs) for ours, theirs in chosen.items()}
                yield step_of(values, bool(zero_based), at, place)
    except BrokenFileError as broken:
        yield Event(kind="broken_file", message=str(broken), source=Evidence(kept, number))
