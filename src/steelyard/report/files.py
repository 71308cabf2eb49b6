"""Where reports are written: a file of ours may be replaced, anything else is left alone."""

from pathlib import Path

from steelyard.errors import InputError
from steelyard.records import write_atomically

_HEAD = 400


def write_report(path: Path, text: str, mark: str) -> None:
    """Write a report; `mark` stands near the top of every one of its kind and tells ours from other files."""
    try:
        if path.is_dir():
            raise _refused(path, "is a directory", "a file name")
        if path.exists() and path.stat().st_size:
            with path.open("rb") as file:
                ours = mark.encode() in file.read(_HEAD)
            if not ours:
                raise _refused(path, "exists already and is no report of ours", "a new file")
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text)
    except OSError as reason:
        raise _refused(path, f"cannot be written ({reason.strerror})", "a place that can be written") from None


def _refused(path: Path, what: str, expected: str) -> InputError:
    return InputError(
        f"{path} {what}", key="-o", value=str(path), expected=expected, next=f"{path.stem}-2{path.suffix}"
    )
