"""Reports: one model of a page, one module per format. Files that are not reports are never overwritten."""

import importlib
import os
from pathlib import Path
from typing import BinaryIO, Protocol, cast

from steelyard.errors import InputError
from steelyard.files import open_regular, replace_file
from steelyard.reporting.page import Page

FORMATS = {"html": f"{__name__}.html", "md": f"{__name__}.markdown"}
"""Values of `--to`. A new format is one module, one entry here and one in `SUFFIXES`."""

SUFFIXES = {".html": "html", ".md": "md"}
"""The format for each file extension."""

OTHERS = {".pdf": "PDF", ".tex": "LaTeX"}
"""Extensions of formats that do not exist; any other extension is part of a name."""

_HEAD, _TAIL = 1000, 4000
"""The mark of a format is within the first bytes of a file, or, in a PDF, within the last."""


class Format(Protocol):
    SUFFIX: str
    MARK: str
    """Near the top of every file of the format, or near the end, so that our own files can be replaced."""

    def render(self, page: Page) -> str: ...


def format_of(name: str) -> Format:
    if name not in FORMATS:
        complaint, expected = f"--to {name!r} is not a format", f"one or more of {', '.join(FORMATS)}"
        raise InputError(complaint, key="--to", value=name, expected=expected, next="--to html")
    return cast("Format", importlib.import_module(FORMATS[name]))


def formats_of(asked: str | None, output: str | None) -> list[Format]:
    """The formats of `--to`; without it that of the file extension, or HTML."""
    suffix = Path(output or "").suffix
    ending = SUFFIXES.get(suffix)
    if output and suffix in OTHERS:
        complaint = f"-o {output}: a report cannot be written as {OTHERS[suffix]}"
        expected = f"a file ending in {' or '.join(SUFFIXES)}, or a directory"
        way_on = f"-o {Path(output).with_suffix('.html')}, then print it from a browser"
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
                ends = _ends(file)
            if ends and mark.encode() not in ends:
                raise _refused(path, "exists and is not a Steelyard report", "a new file", key)
        if not path.parent.is_dir():
            raise _refused(path, "is in a directory that does not exist", "a file in an existing directory", key)
    except OSError as reason:
        raise _unwritable(path, reason, key) from None
    return path


def _ends(file: BinaryIO) -> bytes:
    head = file.read(_HEAD)
    file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
    return head + (file.read(_TAIL) if head.startswith(b"%PDF-") else b"")


def encoded(text: str) -> bytes:
    return text.encode("utf-8", errors="backslashreplace")


def write_report(path: Path, content: str | bytes, mark: str, key: str = "-o") -> None:
    """Write a report; `mark` in it tells reports from other files."""
    place = check_place(path, mark, key)
    try:
        replace_file(place, encoded(content) if isinstance(content, str) else content)
    except OSError as reason:
        raise _unwritable(path, reason, key) from None


def _unwritable(path: Path, reason: OSError, key: str) -> InputError:
    return _refused(path, f"cannot be written ({reason.strerror})", "a writable place", key)


def _refused(path: Path, reason: str, expected: str, key: str) -> InputError:
    another = path.with_name(f"{path.stem}-2{path.suffix}")
    return InputError(f"{path} {reason}", key=key, value=str(path), expected=expected, next=f"{key} {another}")
