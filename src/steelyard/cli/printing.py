"""What a person or a program sees: results on standard output, everything else on standard error."""

import json
import os
import shutil
import sys
import textwrap
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Any, TextIO

from steelyard.errors import InfrastructureError, SteelyardError
from steelyard.inert import inert as inert
from steelyard.inert import inert_lines


class Style(Enum):
    """How a word looks on a terminal with color."""

    GOOD = "32"
    BAD = "1;31"
    DOUBTFUL = "33"
    STRONG = "1"
    FAINT = "2"


STATUS_STYLES = {"pass": Style.GOOD, "fail": Style.BAD, "unknown": Style.DOUBTFUL, "n/a": Style.FAINT}
"""For the words of a verdict, a finding and a tier."""


def has_color(stream: TextIO) -> bool:
    """NO_COLOR turns color off and FORCE_COLOR on, as https://no-color.org and https://force-color.org define them."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (stream.isatty() and os.environ.get("TERM") != "dumb")


def say(text: str, style: Style | None = None, styled: int | None = None) -> None:
    """Print lines of the result; `style` colors all of it, or its first `styled` characters.

    A closed pipe does not change the exit status.
    """
    text = inert_lines(text)
    if style is not None and has_color(sys.stdout):
        end = len(text) if styled is None else styled
        text = f"\x1b[{style.value}m{text[:end]}\x1b[0m{text[end:]}"
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 - for the rest of the process
    except (OSError, ValueError) as reason:
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115
        raise InfrastructureError(f"standard output cannot be written ({reason})") from None


def item(head: str, text: str, indent: int | None = None, style: Style | None = None) -> None:
    """Print a line whose text may come from anywhere. On a narrow terminal it wraps under the start of the text, or
    at `indent`. `style` colors the head.
    """
    text, columns = inert(text), shutil.get_terminal_size().columns
    under = " " * (len(head) if indent is None else indent)
    if not sys.stdout.isatty() or columns < len(under) + 24:
        say(head + text, style, len(head))
    else:
        filled = textwrap.fill(text, columns, initial_indent=head, subsequent_indent=under, break_on_hyphens=False)
        say(filled, style, len(head))


def finding(status: str, name: str, text: str, width: int) -> None:
    """Print one result in two columns; a long text wraps under its start."""
    item(f"  {status:<7}  {name:<{width}}  ", text, style=STATUS_STYLES[status])


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
