"""The files of a run that reports are made from, and their digest."""

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from steelyard.files import open_regular
from steelyard.records.manifest import FILE as MANIFEST
from steelyard.records.writer import EVENTS, LOGS, NODES, PLAN, STEPS, TELEMETRY

RECORDS = (MANIFEST, PLAN, STEPS, NODES, EVENTS, TELEMETRY)


def record_files(run: Path) -> list[str]:
    """The records and logs of a run as paths below it, sorted; links and special files are left out."""
    return sorted([*(name for name in RECORDS if is_regular(run / name)), *_logs(run)])


def records_digest(run: Path) -> str:
    """SHA-256 of the checksums of these files in the format of `sha256sum`; OSError if one cannot be read."""
    digest = hashlib.sha256()
    for name in record_files(run):
        digest.update(os.fsencode(f"{file_digest(run / name, run)}  {name}\n"))
    return digest.hexdigest()


def file_digest(path: Path, below: Path) -> str:
    """SHA-256 of a file below a directory."""
    with open_regular(path, below=below) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _logs(run: Path) -> Iterator[str]:
    if (run / LOGS).is_symlink():
        return
    for folder, _, names in os.walk(run / LOGS):
        for name in names:
            path = Path(folder, name)
            if is_regular(path):
                yield str(path.relative_to(run))


def is_regular(path: Path) -> bool:
    """Whether a path is a regular file, and not a link to one."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except FileNotFoundError:
        return False
