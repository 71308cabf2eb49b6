"""Pages a person believes: one model of a page, one module a format."""

import importlib
from pathlib import Path
from typing import Protocol, cast

from steelyard.errors import InputError
from steelyard.reporting.page import Page

FORMATS = {"html": f"{__name__}.html", "md": f"{__name__}.markdown"}
"""What `--to` takes; adding a format is a file and a word here."""

SUFFIXES = {f".{name}": name for name in FORMATS}
"""What a file's ending says of its format."""

OTHERS = {".pdf": "PDF", ".tex": "LaTeX"}
"""Endings that ask for what is not written; any other is part of a name."""


class Format(Protocol):
    SUFFIX: str
    MARK: str
    """Stands near the top of every file of the format, so that ours may be replaced."""

    def render(self, page: Page) -> str: ...


def format_of(name: str) -> Format:
    """The module of a format."""
    if name not in FORMATS:
        raise InputError(
            f"--to {name!r} is no format",
            key="--to",
            value=name,
            expected=f"one or more of {', '.join(FORMATS)}",
            next="--to html",
        )
    return cast("Format", importlib.import_module(FORMATS[name]))


def formats_of(asked: str | None, output: str | None) -> list[Format]:
    """The formats of `--to`; where none is asked for, what the file's ending says, or HTML."""
    ending = SUFFIXES.get(Path(output).suffix) if output else None
    if output and Path(output).suffix in OTHERS:
        raise InputError(
            f"-o {output}: no report is written as {OTHERS[Path(output).suffix]}",
            key="-o",
            value=output,
            expected=f"a file ending in {' or '.join(SUFFIXES)}, or a directory",
            next=f"-o {Path(output).with_suffix('.html')}, which a browser prints",
        )
    names = list(dict.fromkeys(name.strip() for name in asked.split(","))) if asked is not None else [ending or "html"]
    formats = [format_of(name) for name in names]
    if output == "-" or (ending and ending not in names):
        raise InputError(
            f"-o {output} is no place for {' and '.join(names)}",
            key="-o",
            value=output,
            expected="a file whose ending is the format's, or a directory",
            next=f"-o report{formats[0].SUFFIX}",
        )
    return formats
