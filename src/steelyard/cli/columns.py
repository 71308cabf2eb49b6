"""Tables that fit the terminal: whole columns are left out, cells are never cut."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from steelyard.cli import printing
from steelyard.cli.printing import STATUS_STYLES
from steelyard.inert import inert

_GAP = 2


@dataclass(frozen=True, slots=True)
class Column:
    key: str
    """The key of its cells."""
    head: str
    importance: int = 0
    """Columns with the largest number are left out first; those with 0 are always shown."""
    is_number: bool = False


Cells = Mapping[str, str]


def fitting(columns: Sequence[Column], rows: Sequence[Cells], indent: str = "") -> list[Column]:
    """The columns that fit the terminal."""
    width, shown = shutil.get_terminal_size().columns, list(columns)
    for column in sorted(columns, key=lambda column: -column.importance):
        if column.importance and len(indent) + sum(_widths(shown, rows)) + _GAP * (len(shown) - 1) > width:
            shown.remove(column)
    return shown


def lines(columns: Sequence[Column], rows: Sequence[Cells], indent: str = "") -> list[str]:
    """The head and one line per row."""
    widths = _widths(columns, rows)
    heads = {column.key: column.head for column in columns}
    return [indent + _line(columns, row, widths) for row in (heads, *rows)]


def show(columns: Sequence[Column], rows: Sequence[Cells], indent: str = "") -> None:
    """Print the columns that fit; a verdict in the first column is colored."""
    shown = fitting(columns, rows, indent)
    head, *rest = lines(shown, rows, indent)
    printing.say(head)
    for row, line in zip(rows, rest, strict=True):
        word = row[shown[0].key]
        printing.say(line, STATUS_STYLES.get(word), len(indent) + len(word))


def _widths(columns: Sequence[Column], rows: Sequence[Cells]) -> list[int]:
    return [max([len(column.head), *(len(inert(row[column.key])) for row in rows)]) for column in columns]


def _line(columns: Sequence[Column], row: Cells, widths: Sequence[int]) -> str:
    cells = [
        inert(row[column.key]).rjust(width) if column.is_number else inert(row[column.key]).ljust(width)
        for column, width in zip(columns, widths, strict=True)
    ]
    return (" " * _GAP).join(cells).rstrip()


def page(text: Sequence[str]) -> None:
    """Print lines; through $PAGER, or less, if standard output is a terminal with fewer lines."""
    pager = shlex.split(os.environ.get("PAGER") or "less -FRX")
    if pager and sys.stdout.isatty() and len(text) >= shutil.get_terminal_size().lines:
        try:
            subprocess.run(pager, input="\n".join(map(inert, text)) + "\n", text=True, check=False)
        except OSError:  # the pager is not installed
            pass
        else:
            return
    for line in text:
        printing.say(line)
