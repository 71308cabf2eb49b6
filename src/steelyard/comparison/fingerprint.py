"""What a run held when it was compared: a digest that changes with whatever a comparison's figures are made from."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from pathlib import Path

import numpy as np

from steelyard.comparison.copies import digest
from steelyard.records import MANIFEST
from steelyard.records.lines import blocks, open_record
from steelyard.records.writer import EVENTS, TELEMETRY
from steelyard.verdict import Subject


def fingerprints(subjects: Sequence[Subject]) -> list[str]:
    """Of several, at once: a digest of much leaves other threads their turn."""
    with ThreadPoolExecutor() as threads:
        return list(threads.map(fingerprint, subjects))


def fingerprint(subject: Subject) -> str:
    """Of its files as bytes, but for the steps, which are taken as they were read: a long run has 200 MB of them.

    More than whether it is the same run: what is said of it counts too, and what is beside the record.
    """
    found = blake2b(digest_size=16)
    for name in (MANIFEST, EVENTS, TELEMETRY):
        path = subject.run.directory / name
        found.update(f"{name} {_size(path)}\n".encode())
        for block in blocks(path):
            found.update(block)
    steps = subject.steps
    found.update(digest(steps))
    for column in (steps.learning_rate, steps.memory_gib, steps.skipped):
        found.update(column.values.tobytes())
    for name, column in steps.columns.items():
        if column.given.any():  # a NaN that was given is not one that was not
            found.update(name.encode())
            found.update(column.given.tobytes())
    found.update(steps.steps_covered.tobytes())
    found.update(" ".join(steps.memory_kinds).encode())
    for flag, rows in sorted(steps.flagged.items()):
        found.update(flag.encode())
        found.update(np.array(rows, dtype=np.int64).tobytes())
    return found.hexdigest()


def _size(path: Path) -> int:
    with open_record(path) as file:
        return file.seek(0, os.SEEK_END)
