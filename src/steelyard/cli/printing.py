"""What a person or a program sees: results on standard output, everything else on standard error."""

import json
import os
import shutil
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from steelyard.errors import InfrastructureError, SteelyardError
from steelyard.inert import inert as inert
from steelyard.inert import inert_lines


def say(text: str) -> None:
    """Lines of the result. A reader who has left does not change the status."""
    try:
        sys.stdout.write(inert_lines(text) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 - for the rest of the process
    except (OSError, ValueError) as reason:
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115
        raise InfrastructureError(f"standard output cannot be written ({reason})") from None


def item(head: str, text: str, indent: int | None = None) -> None:
    """A line with a text from anywhere; where a terminal is too narrow it goes on under its beginning, or so far in."""
    text, columns = inert(text), shutil.get_terminal_size().columns
    under = " " * (len(head) if indent is None else indent)
    if not sys.stdout.isatty() or columns < len(under) + 24:
        say(head + text)
    else:
        say(textwrap.fill(text, columns, initial_indent=head, subsequent_indent=under, break_on_hyphens=False))


def table(rows: Sequence[Sequence[str]], indent: str = "") -> None:
    """Columns as wide as their widest cell, never cut: a name must be fit to be copied."""
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    for row in rows:
        cells = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        say(f"{indent}{inert(cells)}".rstrip())


def note(text: str) -> None:
    """A line of progress. A reader who has left does not end the work."""
    try:
        sys.stderr.write(inert_lines(text) + "\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115 - for the rest of the process


def show_json(document: dict[str, Any]) -> None:
    say(json.dumps(document, indent=2, allow_nan=False, ensure_ascii=True))


def show_error(error: SteelyardError, as_json: bool, extra: dict[str, Any] | None = None) -> None:
    """One sentence for a person, one document for a program."""
    if as_json:
        show_json({**(extra or {}), "error": error.document()})
    else:
        note(f"steelyard: {error}")
