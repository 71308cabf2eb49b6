"""Figures as CSV. Text from outside cannot act in a spreadsheet; numbers stay numbers."""

import csv
import io
import math
from typing import Any

from steelyard import __version__
from steelyard.inert import inert
from steelyard.reporting.rows import Rows

SUFFIX = ".csv"
OF = "rows"
FIGURES = ()
_VERSION = "steelyard_report"
"""The first column, with the version that made the file."""
MARK = f"{_VERSION},"
_FORMULA = tuple(
    "=+-@\N{FULLWIDTH EQUALS SIGN}\N{FULLWIDTH PLUS SIGN}\N{FULLWIDTH HYPHEN-MINUS}\N{FULLWIDTH COMMERCIAL AT}"
)
"""What a formula of a spreadsheet program begins with, also in full width. Control characters are escaped anyway."""


def render(rows: Rows) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([_VERSION, *map(_cell, rows.columns)])
    writer.writerows([__version__, *(_cell(row.get(name)) for name in rows.columns)] for row in rows.rows)
    return text.getvalue()


def _cell(value: Any) -> str | float | int:
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return value
    text = "" if value is None else inert(str(value))
    return f"'{text}" if text.lstrip().startswith(_FORMULA) else text
