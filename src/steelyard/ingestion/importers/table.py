"""CSV and JSON lines, a row a step; --columns says which of them is what."""

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
"""Columns, in a message."""
_MOST_COMPARED = 1000
"""Columns whose names are compared with ours: a table may have a million."""
_LONGEST_NAME = 100
"""Of a column, in a message."""
_LONGEST_ROW = 4 * LONGEST
"""Characters of a row of CSV, whose quoted cells may span lines."""

keep = keep_copy


def recognises(path: str, columns: Columns | None) -> bool:
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
        raise InputError(f"{broken} before its first row", key="PATH", value=path, expected="a row a step") from None
    if first is None:
        raise InputError(f"{path} has no row", key="PATH", value=path, expected="a row a step")
    names = [] if isinstance(first[1], str) else list(first[1])
    chosen = _chosen(names, columns or {})
    _check(path, chosen, names, columns)
    dialect = "jsonl" if as_json else "csv"
    return Imported(dialect, None, steps_of(chain([first], rows), chosen, kept), events=_unread(names, chosen))


Row = tuple[int, Mapping[str, Any] | str]
"""The line it starts on, and its values by column, or why the line cannot be read as a row."""


def plain_name(path: str) -> str:
    """A file's name in lower case, without the ending of its compression."""
    name = Path(path).name.lower()
    return name.removesuffix(".gz").removesuffix(".zst")


def text_lines(path: str, most_unpacked: int) -> Iterator[str]:
    """The lines of a file as text, with their newlines; BrokenFileError where it breaks off."""
    with open_source(path, most_unpacked) as source:
        for number, line in enumerate(lines(source)):
            text = line.decode("utf-8", "replace")
            yield text if number else text.removeprefix("\ufeff")


def _delimiter(path: str, header: str) -> str:
    """A tab, a semicolon where the header has one and no comma, else a comma."""
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
                raise csv.Error(f"a row of more than {LONGEST >> 20} MiB")
            yield from io.StringIO(text, newline="") if "\r" in text else (text,)  # a lone \r ends a row too

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
                yield reader.line_num, f"it has {len(row)} columns, and the header {len(header)}"
    except csv.Error as reason:
        raise InputError(
            f"{path}: the row at line {reader.line_num + 1} is not CSV ({reason})",
            key="PATH",
            value=path,
            expected="comma-separated rows of one line each",
            next=f"steelyard ingest {shlex.quote(path)} without that row",
        ) from None


def json_rows(texts: Iterable[str]) -> Iterator[Row]:
    for number, text in enumerate(texts, start=1):
        if not text.strip():
            continue
        try:
            row = json.loads(text)
        except (ValueError, RecursionError):
            row = None
        long = f"it is longer than {LONGEST >> 20} MiB" if len(text) >= LONGEST else "it is not a JSON object"
        yield number, row if isinstance(row, dict) else long


def _chosen(names: list[str], columns: Columns) -> Columns:
    """What --columns says, and the columns that are called as ours and that it says nothing of."""
    taken = {REPORTED.get(ours, ours) for ours in columns}
    own: dict[str, str] = {}
    for name in sorted(names, key=lambda name: name not in KNOWN):  # `loss` before `Loss`
        ours = name.lower()
        if ours in KNOWN and REPORTED.get(ours, ours) not in taken and name not in columns.values():
            own[ours] = name
            taken.add(REPORTED.get(ours, ours))
    return {**columns, **own}


def _unread(names: list[str], chosen: Columns) -> list[Event]:
    """The columns that nothing is read of, so that one with another name is not lost unseen."""
    ignored = [readable(name[:_LONGEST_NAME]) for name in names if name not in chosen.values()]
    if not ignored:
        return []
    shown = ", ".join(ignored[:_MOST_SHOWN]) + (
        f" and {len(ignored) - _MOST_SHOWN} more" * (len(ignored) > _MOST_SHOWN)
    )
    meant = [f"{ours}={name}" for name in ignored[:_MOST_COMPARED] if (ours := _meant(name)) and ours not in chosen]
    example = shlex.quote(",".join(dict.fromkeys(meant[:3]))) if meant else "FIELD=COLUMN"
    return [Event(kind="unread_columns", message=f"{shown}; --columns {example} would say what they are")]


def _meant(name: str) -> str | None:
    """The field that a column may be; it is offered, never taken."""
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
            f"{path}: which column is the step, and which the loss, is not said",
            key="--columns",
            value=known,
            expected=f"our fields on the left ({', '.join(KNOWN[:9])} …), its columns on the right",
            next=f"steelyard ingest {path} --columns step={first},loss=…",
        )


def _nearest(chosen: Columns, names: list[str]) -> str:
    """What was asked, with the nearest column in place of one that is not there."""
    pairs = []
    for ours, theirs in chosen.items():
        near = difflib.get_close_matches(theirs, names[:_MOST_COMPARED], n=1, cutoff=0.4)
        pairs.append(f"{ours}={theirs if theirs in names else near[0] if near else '…'}")
    return shlex.quote(",".join(pairs))


def steps_of(rows: Iterable[Row], chosen: Columns, kept: str, zero_based: bool | None = None) -> Iterator[Step | Event]:
    """A step a row, or why it is none; a first step of 0 says that they count from there."""
    number = 0
    try:
        for number, row in rows:
            if zero_based is None and not isinstance(row, str):
                first = row.get(chosen["step"])
                zero_based = isinstance(first, str | int | float) and str(first).strip() in ("0", "0.0")
            at, place = Evidence(kept, number), f"row of line {number}"
            if isinstance(row, str):
                yield unread(at, place, row)
            else:
                values = {ours: row.get(theirs) for ours, theirs in chosen.items()}
                yield step_of(values, bool(zero_based), at, place)
    except BrokenFileError as broken:
        yield Event(kind="broken_file", message=str(broken), source=Evidence(kept, number))
