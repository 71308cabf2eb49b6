"""Names of directories under --out: new ones, and what to say of one that will not do."""

import os
import re
from datetime import UTC, datetime
from pathlib import Path

from steelyard.errors import InputError


def stamped(*words: str) -> str:
    """UTC time, then words, as a name."""
    return "-".join([f"{datetime.now(UTC):%Y%m%dT%H%M%S}", *words])


def unstamped(name: str) -> str:
    """A name of ours without its time."""
    return re.sub(r"^\d{8}T\d{6}-(?=.)", "", name)


def check_new_name(out: Path, name: str | None) -> None:
    """Refuse a name before anything is made."""
    if name is None:
        return
    fits = name.isprintable() and "/" not in name and len(os.fsencode(name)) <= 200
    if not name or name.startswith((".", "-")) or not fits:
        raise InputError(
            f"--name {name!r} cannot name a directory",
            key="--name",
            value=name,
            expected="one printable path component that does not start with '.' or '-'",
        )
    if os.path.lexists(out / name):
        raise exists_already(out / name)


def new_directory(out: Path, name: str | None, own: str) -> Path:
    """Make a directory: `name` is refused where it exists; a name of our own gets -2, -3 … instead."""
    check_new_name(out, name)
    number = 1
    while True:
        path = out / (name or (own if number == 1 else f"{own}-{number}"))
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            if name is not None or not os.path.lexists(path):
                raise exists_already(path) from None
            number += 1
        except OSError as reason:
            raise unwritable(out, reason) from None
        else:
            return path


def unwritable(out: Path, reason: OSError) -> InputError:
    return InputError(
        f"--out {out}: cannot be written ({reason.strerror})",
        key="--out",
        value=str(out),
        expected="a directory that can be written",
        next="--out runs",
    )


def exists_already(path: Path) -> InputError:
    return InputError(
        f"{path} exists already", key="--name", value=path.name, expected="a new name", next=f"--name {path.name}-2"
    )
