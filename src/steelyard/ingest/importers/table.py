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
from steelyard.frameworks.logs.secrets import redact
from steelyard.ingest.importers import Columns, Imported
from steelyard.ingest.importers.fields import KNOWN, REPORTED, TAGS, step_of
from steelyard.ingest.sources import STDIN, open_source
from steelyard.records.step import Event, Evidence, Step

_SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson")
_MOST_SHOWN = 12
"""Columns, in a message."""


class Table:
    def recognises(self, path: str, columns: Columns | None) -> bool:
        return columns is not None or plain_name(path).endswith(_SUFFIXES)

    def read(self, path: str, kept: str, columns: Columns | None) -> Imported:
        source = io.TextIOWrapper(open_source(path), encoding="utf-8", errors="replace", newline="")
        lines = is_json_lines(path, source)
        rows = json_rows(source) if lines else csv_rows(source, _delimiter(path, source))
        first = next(rows, None)
        if first is None:
            raise InputError(f"{path} has no row", key="PATH", value=path, expected="a row a step")
        names = list(first[1]) if first[1] is not None else []
        chosen = _chosen(names, columns or {})
        _check(path, chosen, names, columns)
        dialect = "jsonl" if lines else "csv"
        return Imported(dialect, None, steps_of(chain([first], rows), chosen, kept), events=_unread(names, chosen))

    def keep(self, path: str, to: Path) -> None:
        keep_copy(path, to)


Row = tuple[int, Mapping[str, Any] | None]
"""The line it starts on, and its values by column; None where the line is no row."""


def plain_name(path: str) -> str:
    """A file's name in lower case, without the ending of its compression."""
    name = Path(path).name.lower()
    return name.removesuffix(".gz").removesuffix(".zst")


def keep_copy(path: str, to: Path) -> None:
    """The file itself, beside the run it became."""
    if path == STDIN:
        return
    with open_source(path) as source, to.open("wb") as copy:
        for line in source:
            copy.write(redact(line)[0])


def _delimiter(path: str, source: io.TextIOWrapper) -> str:
    """A tab, a semicolon where the header has one and no comma, else a comma."""
    if plain_name(path).endswith(".tsv"):
        return "\t"
    peek = getattr(source.buffer, "peek", None)
    header = peek(1 << 12).split(b"\n")[0] if peek else b""
    return ";" if b";" in header and b"," not in header else ","


def is_json_lines(path: str, source: io.TextIOWrapper) -> bool:
    name = plain_name(path)
    if name.endswith((".csv", ".tsv")):
        return False
    if name.endswith((".jsonl", ".ndjson")):
        return True
    peek = getattr(source.buffer, "peek", None)
    return bool(peek and peek(1)[:1] == b"{")


def csv_rows(source: io.TextIOWrapper, delimiter: str) -> Iterator[Row]:
    reader = csv.reader(source, delimiter=delimiter, strict=True)
    try:
        header = next(reader, [])
        header = [name.strip().removeprefix("\ufeff") for name in header]
        for row in reader:
            if not any(cell.strip() for cell in row):
                continue
            yield reader.line_num, dict(zip(header, row, strict=True)) if len(row) == len(header) else None
    except csv.Error as reason:
        raise InputError(
            f"line {reader.line_num} is no CSV ({reason})", key="PATH", expected="comma-separated rows"
        ) from None


def json_rows(source: io.TextIOWrapper) -> Iterator[Row]:
    for number, line in enumerate(source, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        yield number, row if isinstance(row, dict) else None


def _chosen(names: list[str], columns: Columns) -> Columns:
    """What --columns says, and the columns that are called as ours and that it says nothing of."""
    said = {REPORTED.get(ours, ours) for ours in columns}
    own: dict[str, str] = {}
    for name in sorted(names, key=lambda name: name not in KNOWN):  # `loss` before `Loss`
        ours = name.lower()
        if ours in KNOWN and REPORTED.get(ours, ours) not in said and name not in columns.values():
            own[ours] = name
            said.add(REPORTED.get(ours, ours))
    return {**columns, **own}


def _unread(names: list[str], chosen: Columns) -> list[Event]:
    """The columns that nothing is read of, so that one with another name is not lost unseen."""
    unread = [name for name in names if name not in chosen.values()]
    if not unread:
        return []
    shown = ", ".join(unread[:_MOST_SHOWN]) + (f" and {len(unread) - _MOST_SHOWN} more" * (len(unread) > _MOST_SHOWN))
    meant = [f"{ours}={name}" for name in unread if (ours := _meant(name)) and ours not in chosen]
    example = shlex.quote(",".join(dict.fromkeys(meant[:3]))) if meant else "FIELD=COLUMN"
    return [Event(kind="unread_columns", message=f"{shown}; --columns {example} would say what they are")]


def _meant(name: str) -> str | None:
    """The field that a column may be; it is offered, never taken."""
    tags = {tag.lower(): ours for tag, ours in TAGS.items()}
    near = difflib.get_close_matches(name.lower(), KNOWN, n=1, cutoff=0.75)
    return tags.get(name.lower()) or (near[0] if near else None)


def _check(path: str, chosen: Columns, names: list[str], columns: Columns | None) -> None:
    known = ", ".join(names[:20]) or "none"
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
        raise InputError(
            f"{path}: which column is the step, and which the loss, is not said",
            key="--columns",
            value=known,
            expected=f"our fields on the left ({', '.join(KNOWN[:9])} …), its columns on the right",
            next=f"steelyard ingest {path} --columns step={names[0] if names else 'step'},loss=…",
        )


def _nearest(chosen: Columns, names: list[str]) -> str:
    """What was asked, with the nearest column in place of one that is not there."""
    pairs = []
    for ours, theirs in chosen.items():
        near = difflib.get_close_matches(theirs, names, n=1, cutoff=0.4)
        pairs.append(f"{ours}={theirs if theirs in names else near[0] if near else '…'}")
    return shlex.quote(",".join(pairs))


def steps_of(rows: Iterable[Row], chosen: Columns, kept: str, zero_based: bool | None = None) -> Iterator[Step | Event]:
    """A step a row, or why it is none; a first step of 0 says that they count from there."""
    for number, row in rows:
        if zero_based is None and row is not None:
            zero_based = str(row.get(chosen["step"], "")).strip() in ("0", "0.0")
        yield from _one(number, row, chosen, kept, bool(zero_based))


def _one(
    number: int, row: Mapping[str, Any] | None, chosen: Columns, kept: str, zero_based: bool
) -> Iterator[Step | Event]:
    at = Evidence(kept, number)
    try:
        if row is None:
            raise ValueError("it has not the columns of the first")
        yield step_of({ours: row.get(theirs) for ours, theirs in chosen.items()}, zero_based, source=at)
    except ValueError as reason:
        yield Event(kind="unread_line", message=f"row of line {number}: {reason}", source=at)


IMPORTER = Table()
