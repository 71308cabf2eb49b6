"""Where reports are written: a report of ours may be replaced, anything else is left alone."""

import os
from pathlib import Path

from steelyard.errors import InputError
from steelyard.files import open_regular, replace_file

_HEAD = 400


def check_place(path: Path, mark: str, key: str = "-o") -> Path:
    """The file to write, refused where something lies there that is not ours; a link is replaced, never followed.

    `key` is the option.
    """
    try:
        path = path.parent.resolve() / path.name
        if path.is_dir() and not path.is_symlink():
            raise _refused(path, "is a directory", "a file name", key)
        if os.path.lexists(path) and not path.is_symlink():
            if not path.is_file():
                raise _refused(path, "is not a regular file", "a file name", key)
            head = _head(path)
            if head and mark.encode() not in head:
                raise _refused(path, "exists already and is not a report of ours", "a new file", key)
        if not path.parent.is_dir():
            raise _refused(path, "lies in a directory that does not exist", "a file in one that does", key)
    except OSError as reason:
        raise _unwritable(path, reason, key) from None
    return path


def write_report(path: Path, text: str, mark: str, key: str = "-o") -> None:
    """Write a report; `mark` stands near the top of every one of its kind and tells ours from other files."""
    place = check_place(path, mark, key)
    try:
        replace_file(place, text.encode("utf-8", errors="backslashreplace"))
    except OSError as reason:
        raise _unwritable(path, reason, key) from None


def _head(path: Path) -> bytes:
    with open_regular(path) as file:
        return file.read(_HEAD)


def _unwritable(path: Path, reason: OSError, key: str) -> InputError:
    return _refused(path, f"cannot be written ({reason.strerror})", "a place that can be written", key)


def _refused(path: Path, what: str, expected: str, key: str) -> InputError:
    another = path.with_name(f"{path.stem}-2{path.suffix}")
    return InputError(f"{path} {what}", key=key, value=str(path), expected=expected, next=f"{key} {another}")
