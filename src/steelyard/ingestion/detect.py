"""Finds the framework of a log before it is read as a run."""

from collections.abc import Sequence

from steelyard.frameworks.logs.reader import LogReader
from steelyard.frameworks.logs.series import Gathered
from steelyard.frameworks.registry import dialect
from steelyard.ingestion.importers import importer_of
from steelyard.ingestion.sources import STDIN, beginning

_START = 16 << 20
"""Bytes that contain a step line, even if every rank of a large job prints its start."""


def framework_of(paths: Sequence[str]) -> str | None:
    """The framework whose step lines the logs have; None if none or several have any, or for other sources."""
    names = set[str]()
    for path in paths:
        if path == STDIN or importer_of(path, None) is not None:
            return None
        reader = LogReader(path, Gathered())
        reader.feed(beginning(path, _START).split(b"\n"))
        reader.end()
        names |= {known.framework for name in reader.seen if (known := dialect(name)) is not None}
    return names.pop() if len(names) == 1 else None
