"""Pages a person believes: one model of a page, one module a format."""

import importlib
from typing import Protocol, cast

from steelyard.errors import InputError
from steelyard.report.page import Page

FORMATS = {"html": f"{__name__}.html", "md": f"{__name__}.markdown"}
"""What `--to` takes; adding a format is a file and a word here."""


class Format(Protocol):
    SUFFIX: str
    MARK: str
    """Stands near the top of every file of the format, so that ours may be replaced."""

    def render(self, page: Page) -> str: ...


def format_of(name: str) -> Format:
    """The module of a format."""
    if name not in FORMATS:
        raise InputError(
            f"--to {name} is no format",
            key="--to",
            value=name,
            expected=f"one or more of {', '.join(FORMATS)}",
            next="--to html",
        )
    return cast("Format", importlib.import_module(FORMATS[name]))
