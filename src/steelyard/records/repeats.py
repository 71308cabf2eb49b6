"""Repeats: runs that lie together in a directory, or by platform in directories of it."""

import os
from collections.abc import Iterator
from pathlib import Path

from steelyard.records.fleet import FILE as FLEET
from steelyard.records.manifest import FILE as MANIFEST
from steelyard.records.reader import folders_of, runs_under


def repeats_under(out: Path) -> Iterator[Path]:
    """Run directories of the directories under `out` that are neither a run nor a fleet, by name."""
    for directory in _plain_directories(out):
        yield from runs_under(directory)
        for below in _plain_directories(directory):
            yield from runs_under(below)


def _plain_directories(directory: Path) -> Iterator[Path]:
    for path in folders_of(directory):
        plain = path.is_dir() and not path.is_symlink()
        if plain and not any(os.path.lexists(path / name) for name in (MANIFEST, FLEET)):
            yield path
