"""Reports: models of a page, a paper and a table of figures, and one module per format.

Files that are not reports are never overwritten.
"""

import importlib
import os
from pathlib import Path
from typing import Any, BinaryIO, Literal, Protocol, cast

from steelyard.errors import InputError
from steelyard.files import DOCUMENT_BYTES, open_regular, replace_file
from steelyard.reporting.figures import Form

FORMATS = {
    "html": f"{__name__}.html",
    "md": f"{__name__}.markdown",
    "latex": f"{__name__}.latex",
    "pdf": f"{__name__}.pdf",
    "csv": f"{__name__}.spreadsheet",
}
"""Values of `--to`. A new format is one module, one entry here and one in `SUFFIXES`."""

SUFFIXES = {".html": "html", ".md": "md", ".tex": "latex", ".pdf": "pdf", ".csv": "csv"}
"""The format for each file extension."""

IMAGES = (".svg", ".png")
"""Extensions of figures; any other extension is part of a name."""

_HEAD = 1000
"""The mark of a format is within the first bytes of a file, or anywhere in a PDF, which ends with its metadata."""


class Format(Protocol):
    """One module. Its `render` takes the part of a report that `OF` names."""

    SUFFIX: str
    MARK: str
    """Near the top of every file of the format, or in the metadata of a PDF, so that our own files can be replaced."""
    OF: Literal["page", "paper", "rows"]
    FIGURES: tuple[Form, ...]
    """Forms of the figures that its files include."""

    def render(self, content: Any) -> str | bytes: ...


def format_of(name: str) -> Format:
    if name not in FORMATS:
        complaint, expected = f"--to {name!r} is not a format", f"one or more of {', '.join(FORMATS)}"
        raise InputError(complaint, key="--to", value=name, expected=expected, next="--to html")
    return cast("Format", importlib.import_module(FORMATS[name]))


def formats_of(asked: str | None, output: str | None) -> list[Format]:
    """The formats of `--to`; without it that of the file extension, or HTML."""
    suffix = Path(output or "").suffix
    ending = SUFFIXES.get(suffix)
    if output and suffix in IMAGES:
        complaint = f"-o {output}: a report is not an image"
        expected, way_on = f"a file ending in {', '.join(SUFFIXES)}, or a directory", f"--figures {suffix[1:]} -o DIR/"
        raise InputError(complaint, key="-o", value=output, expected=expected, next=way_on)
    names = list(dict.fromkeys(name.strip() for name in asked.split(","))) if asked is not None else [ending or "html"]
    formats = [format_of(name) for name in names]
    if output == "-" or (ending and ending not in names):
        complaint = f"-o {output} does not match the format {' and '.join(names)}"
        expected, way_on = "a file with the extension of the format, or a directory", f"-o report{formats[0].SUFFIX}"
        raise InputError(complaint, key="-o", value=output, expected=expected, next=way_on)
    return formats


def check_place(path: Path, mark: str, key: str = "-o") -> Path:
    """The file to write. Anything but a report of ours is refused; a link is replaced, never followed."""
    try:
        path = path.parent.resolve() / path.name
        if path.is_dir() and not path.is_symlink():
            raise _refused(path, "is a directory", "a file name", key)
        if os.path.lexists(path) and not path.is_symlink():
            if not path.is_file():
                raise _refused(path, "is not a regular file", "a file name", key)
            with open_regular(path) as file:
                content = _marked_part(file)
            if content and mark.encode() not in content:
                raise _refused(path, "exists and is not a Steelyard report", "a new file", key)
        if not path.parent.is_dir():
            raise _refused(path, "is in a directory that does not exist", "a file in an existing directory", key)
    except OSError as reason:
        raise unwritable(path, reason, key) from None
    return path


def _marked_part(file: BinaryIO) -> bytes:
    head = file.read(_HEAD)
    return head + (file.read(DOCUMENT_BYTES) if head.startswith(b"%PDF-") else b"")


def encoded(text: str) -> bytes:
    return text.encode("utf-8", errors="backslashreplace")


def write_report(path: Path, content: str | bytes, mark: str, key: str = "-o") -> None:
    """Write a report; `mark` in it tells reports from other files."""
    place = check_place(path, mark, key)
    try:
        replace_file(place, encoded(content) if isinstance(content, str) else content)
    except OSError as reason:
        raise unwritable(path, reason, key) from None


def unwritable(path: Path, reason: OSError, key: str) -> InputError:
    """The error for a report that cannot be written."""
    return _refused(path, f"cannot be written ({reason.strerror})", "a writable place", key)


def _refused(path: Path, reason: str, expected: str, key: str) -> InputError:
    another = path.with_name(f"{path.stem}-2{path.suffix}")
    return InputError(f"{path} {reason}", key=key, value=str(path), expected=expected, next=f"{key} {another}")
