"""The table of `steelyard runs list`: sorted, filtered, and as wide as the terminal."""

import difflib
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from steelyard import records
from steelyard.cli import columns, printing
from steelyard.cli.columns import Column
from steelyard.cli.run_summaries import RATE, rate_text, summary_at
from steelyard.errors import InputError
from steelyard.records.fleet import fleets_under, is_suite, repeats_under
from steelyard.records.suite import suites_under

DEFAULT_LIMIT = 20
"""Rows that fit a terminal of 24 lines."""
_COLUMNS = (
    Column("verdict", "verdict"),
    Column("name", "name"),
    Column(RATE, "tokens/s/GPU", 1, is_number=True),
    Column("status", "status", 2),
    Column("started", "started", 3),
    Column("steps", "steps", 4, is_number=True),
    Column("platform", "platform", 5),
    Column("experiment", "experiment", 6),
    Column("framework", "framework", 7),
    Column("ended", "ended", 8),
)
KEYS = tuple(column.key for column in _COLUMNS)

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ListRequest:
    """Which runs to list, and how."""

    out: Path
    limit: int | None
    """None: the default; 0: all."""
    sort: str | None
    """A key, with `-` for descending order; None: the default."""
    filters: Sequence[str]
    columns: str | None


def show_list(request: ListRequest, as_json: bool) -> None:
    """List the runs, fleets and suites in a directory, with those that cannot be read."""
    key, is_descending = _sort_key(request.sort or "-started")
    chosen = None if request.columns is None else _chosen(request.columns)
    tests = [_parsed(text) for text in request.filters]
    runs = [*records.runs_under(request.out), *repeats_under(request.out)]
    rows = [summary_at("run", path, path.relative_to(request.out).as_posix()) for path in runs]
    rows += [summary_at("fleet", path, path.name) for path in fleets_under(request.out)]
    rows += [summary_at("suite", path, path.name) for path in suites_under(request.out) if is_suite(path)]
    matching = [row for row in rows if all(_matches(row, *test) for test in tests)]
    matching = _sorted(matching, key, is_descending)
    limit = request.limit if request.limit is not None else 0 if as_json else DEFAULT_LIMIT
    shown = matching[:limit] if limit else matching
    if as_json:
        ordered = shown if request.sort else shown[::-1]
        lists = {f"{kind}s": [row for row in ordered if kind in row] for kind in ("run", "fleet", "suite")}
        printing.show_json({**lists, "not_shown": len(matching) - len(shown)})
    elif shown:
        _print(shown, chosen)
        _print_notes(shown, len(matching) - len(shown))
    elif rows:
        filters = " ".join(f"--filter {shlex.quote(text)}" for text in request.filters)
        printing.say(f"none of {len(rows):,} runs matches {filters}")
    else:
        printing.say(f"no runs in {request.out.resolve()}; --out DIR or $STEELYARD_RUNS selects another directory")
        printing.say("next: steelyard demo --recorded")


def _print(rows: Sequence[Row], chosen: Sequence[Column] | None) -> None:
    cells = [{key: _cell(row, key) for key in KEYS} for row in rows]
    if chosen is None:
        chosen = columns.fitting(_COLUMNS, cells)
    columns.page(columns.lines(chosen, cells))


def _print_notes(rows: Sequence[Row], num_hidden: int) -> None:
    for row in rows:
        if row["error"] is not None:
            printing.note(f"unreadable: {row['error']}")
    if num_hidden:
        printing.note(f"{num_hidden:,} more runs not shown; --limit 0 shows all")


def _cell(row: Row, key: str) -> str:
    value = row[key]
    if value is None:
        return "-"
    if key == RATE:
        return rate_text(value)
    return str(value)[:16].replace("T", " ") if key in ("started", "ended") else str(value)


def _sorted(rows: Sequence[Row], key: str, is_descending: bool) -> list[Row]:
    """Rows without a value come last; an unreadable run counts as the newest."""
    unreadable = [row for row in rows if row["error"] is not None] if key == "started" else []
    known = [row for row in rows if row[key] is not None and row not in unreadable]
    unknown = [row for row in rows if row[key] is None and row not in unreadable]
    is_number = next(column.is_number for column in _COLUMNS if column.key == key)
    known.sort(key=lambda row: (row[key] if is_number else str(row[key]), row["name"]), reverse=is_descending)
    return [*unreadable, *known, *unknown] if is_descending else [*known, *unreadable, *unknown]


def _matches(row: Row, key: str | None, text: str) -> bool:
    """Whether the cell `key`, or any cell, contains a text; case is ignored."""
    return any(text in _cell(row, name).casefold() for name in ((key,) if key else KEYS))


def _parsed(text: str) -> tuple[str | None, str]:
    key, is_pair, value = text.partition("=")
    if not is_pair:
        return None, text.casefold()
    _check_key("--filter", key, text, "{}=" + value)
    return key, value.casefold()


def _sort_key(text: str) -> tuple[str, bool]:
    key, sign = text.removeprefix("-"), "-" if text.startswith("-") else ""
    _check_key("--sort", key, text, sign + "{}")
    return key, bool(sign)


def _chosen(text: str) -> list[Column]:
    by_key = {column.key: column for column in _COLUMNS}
    keys = KEYS if text == "all" else tuple(word.strip() for word in text.split(","))
    for key in keys:
        _check_key("--columns", key, text, "{}")
    return [by_key[key] for key in keys]


def _check_key(option: str, key: str, value: str, form: str) -> None:
    if key not in KEYS:
        nearest = difflib.get_close_matches(key, KEYS, n=1, cutoff=0.0)[0]
        message, expected = f"{option}: unknown column {key!r}", f"one of {', '.join(KEYS)}"
        way_on = f"{option} {form.format(nearest)}"
        raise InputError(message, key=option, value=value, expected=expected, next=way_on)
