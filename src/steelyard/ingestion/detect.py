"""Finds out what a file is before it is read as a run."""

from collections.abc import Sequence
from pathlib import Path

from steelyard.errors import InputError
from steelyard.frameworks.logs.reader import LogReader
from steelyard.frameworks.logs.series import Gathered
from steelyard.frameworks.registry import dialect
from steelyard.ingestion.importers import importer_of
from steelyard.ingestion.outcome import UnrecognizedError
from steelyard.ingestion.sources import STDIN, beginning
from steelyard.records import Event

_START = 16 << 20
"""Bytes that contain a step line, even if every rank of a large job prints its start."""
_BINARY = 1 << 16
"""Bytes in which a binary file has a null."""


def framework_of(paths: Sequence[str]) -> str | None:
    """The framework whose step lines the logs have; None if none or several have any, or for other sources."""
    names = set[str]()
    for path in paths:
        if path == STDIN or importer_of(path, None) is not None:
            return None
        reader, _ = _read_start(path)
        names |= {known.framework for name in reader.seen if (known := dialect(name)) is not None}
    return names.pop() if len(names) == 1 else None


def _read_start(path: str) -> tuple[LogReader, Gathered]:
    sink = Gathered(lambda setting: [Event(kind="setting", message=setting.key, source=setting.source)])
    reader = LogReader(path, sink)
    reader.feed(beginning(path, _START).split(b"\n"))
    reader.end()
    return reader, sink


def check_readable(path: str, named_like_a_log: bool) -> None:
    """Refuse a binary file, and a large file that does not start like a log, before all of it is read and copied.

    A log may contain nulls, too.
    """
    if importer_of(path, None) is not None:
        return
    if not named_like_a_log and b"\0" in beginning(path, _BINARY):
        raise _unrecognized(f"{path} is a binary file", path)
    if Path(path).stat().st_size > _START:
        reader, sink = _read_start(path)
        if not reader.seen and not reader.hinted and not sink.take():
            raise _unrecognized(f"{path}: no training log recognized in the first {_START >> 20} MiB", path)


def _unrecognized(message: str, path: str) -> InputError:
    return UnrecognizedError(message, key="PATH", value=path, expected="a log or a result", next=f"file {path}")
