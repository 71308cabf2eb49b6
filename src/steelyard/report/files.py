"""Where reports are written: a report of ours may be replaced, anything else is left alone."""

from pathlib import Path

from steelyard.errors import InputError
from steelyard.records import write_atomically

_HEAD = 400


def check_place(path: Path, mark: str) -> Path:
    """The file to write, through links; refused where something lies there that is not ours."""
    try:
        path = path.resolve()
        if path.is_dir():
            raise _refused(path, "is a directory", "a file name")
        if path.exists():
            if not path.is_file():
                raise _refused(path, "is no regular file", "a file name")
            if path.stat().st_size and mark.encode() not in _head(path):
                raise _refused(path, "exists already and is no report of ours", "a new file")
        if not path.parent.is_dir():
            raise _refused(path, "lies in a directory that does not exist", "a file in one that does")
    except OSError as reason:
        raise _unwritable(path, reason) from None
    return path


def write_report(path: Path, text: str, mark: str) -> None:
    """Write a report; `mark` stands near the top of every one of its kind and tells ours from other files."""
    place = check_place(path, mark)
    try:
        write_atomically(place, text.encode("utf-8", errors="backslashreplace").decode())
    except OSError as reason:
        raise _unwritable(path, reason) from None


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_HEAD)


def _unwritable(path: Path, reason: OSError) -> InputError:
    return _refused(path, f"cannot be written ({reason.strerror})", "a place that can be written")


def _refused(path: Path, what: str, expected: str) -> InputError:
    another = path.with_name(f"{path.stem}-2{path.suffix}")
    return InputError(f"{path} {what}", key="-o", value=str(path), expected=expected, next=str(another))
