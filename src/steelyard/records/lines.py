"""Reads the files of a run that grow by lines: steps, events, telemetry."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from steelyard.errors import InputError
from steelyard.files import open_regular

LINE_BYTES = 1 << 20
"""The most a line may hold: a step has some hundred bytes, the counters of a host some thousand."""


def open_record(path: Path) -> BinaryIO:
    """A file of a run; one that was never written is empty."""
    try:
        return open_regular(path)
    except FileNotFoundError:
        return io.BytesIO()
    except OSError as reason:
        raise unreadable(path, reason.strerror or str(reason)) from None


def blocks(path: Path, size: int = LINE_BYTES) -> Iterator[bytes]:
    """All of a file, about so many bytes at a time, each block but the last up to the end of a line."""
    with open_record(path) as file:
        while block := _read(path, file, size):
            if not block.endswith(b"\n"):
                block += _read(path, file, LINE_BYTES + 1, to_line_end=True)
            if len(block) - 1 - block.rfind(b"\n", 0, -1) > LINE_BYTES + 1:
                raise unreadable(path, f"a line is longer than {LINE_BYTES >> 20} MiB")
            yield block


def line_blocks(path: Path, size: int = LINE_BYTES) -> Iterator[bytes]:
    """The same without a last line that a crash cut short."""
    for block in blocks(path, size):
        if whole := block[: block.rfind(b"\n") + 1]:
            yield whole


def whole_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Every line that has its end, with its number."""
    number = 0
    for block in line_blocks(path):
        for line in io.BytesIO(block):
            number += 1
            yield number, line


def count_lines(path: Path) -> int:
    return sum(block.count(b"\n") for block in line_blocks(path))


def unreadable(path: Path, reason: str) -> InputError:
    """What to say of a file of a run that cannot be read."""
    return InputError(f"{path} cannot be read ({reason})", key="RUN", value=str(path))


def _read(path: Path, file: BinaryIO, size: int, to_line_end: bool = False) -> bytes:
    try:
        return file.readline(size) if to_line_end else file.read(size)
    except OSError as reason:
        raise unreadable(path, reason.strerror or str(reason)) from None
