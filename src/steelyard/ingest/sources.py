"""Opens what a log comes from: a file, compressed or not, a pipe, or a file that still grows; in blocks of bytes."""

import gzip
import io
import os
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, cast

from steelyard.errors import InputError

STDIN = "-"
BLOCK_BYTES = 1 << 18
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_POLL_S = 0.5


def open_source(path: str) -> BinaryIO:
    """The bytes of a log, decompressed; a file that cannot be read is one sentence."""
    if path == STDIN:
        peek = getattr(sys.stdin.buffer, "peek", None)
        return _unpacked(sys.stdin.buffer, peek(4)[:4] if peek else b"")
    try:
        file = Path(path).open("rb")  # noqa: SIM115 - the reader closes it
    except OSError as reason:
        raise InputError(
            f"{path} cannot be read ({reason.strerror})",
            key="PATH",
            value=path,
            expected="a log, a result file, a folder of TensorBoard's event files, or - for standard input",
            next=f"steelyard ingest {path.rstrip('/')}/*.log" if Path(path).is_dir() else None,
        ) from None
    if not file.seekable():  # a named pipe
        return file
    magic = file.read(4)
    file.seek(0)
    return _unpacked(file, magic)


def _unpacked(file: BinaryIO, magic: bytes) -> BinaryIO:
    if magic.startswith(_GZIP):
        return cast("BinaryIO", gzip.GzipFile(fileobj=file))
    if magic.startswith(_ZSTD):
        import zstandard

        return cast("BinaryIO", zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True))
    return file


def is_plain_file(path: str) -> bool:
    """Whether it is a file whose bytes are its lines: no pipe, not compressed."""
    if path == STDIN or not Path(path).is_file():
        return False
    with open_source(path) as source:
        return isinstance(source, io.BufferedReader)


def send(source: BinaryIO, copy: BinaryIO, end: int) -> None:
    """Copy a file on from where the copy ends, up to `end`: what was read of it, should it have grown since."""
    sent = os.fstat(copy.fileno()).st_size
    while sent < end and (now := os.sendfile(copy.fileno(), source.fileno(), sent, end - sent)):
        sent += now


def blocks(path: str, source: BinaryIO) -> Iterator[bytes]:
    """All of a source, a block at a time; one that breaks off amid its compression is as long as it got."""
    read = getattr(source, "read1", source.read)
    try:
        while data := read(BLOCK_BYTES):
            yield data
    except (EOFError, zlib.error, gzip.BadGzipFile) as reason:
        raise BrokenFileError(f"{path} breaks off ({reason})") from None
    except Exception as reason:
        if type(reason).__name__ != "ZstdError":
            raise
        raise BrokenFileError(f"{path} breaks off ({reason})") from None


class BrokenFileError(Exception):
    """A compressed file that ends before it should."""


def following(path: str, source: BinaryIO, ended: Callable[[], bool], idle: Callable[[], None]) -> Iterator[bytes]:
    """A file that still grows, until `ended`; `idle` is called whenever all of it has been read."""
    read = 0
    while True:
        data = source.read(BLOCK_BYTES)
        if data:
            read += len(data)
            yield data
            continue
        idle()
        if ended():
            return
        if path != STDIN and _is_another(path, source, read):
            raise BrokenFileError(f"{path} was cut, replaced or removed while it was followed")
        time.sleep(_POLL_S)


def _is_another(path: str, source: BinaryIO, read: int) -> bool:
    """Whether what lies under the name is no longer the file that is read, or is shorter than what was read of it."""
    try:
        now, ours = Path(path).stat(), os.fstat(source.fileno())
    except OSError:
        return True
    return now.st_ino != ours.st_ino or (isinstance(source, io.BufferedReader) and now.st_size < read)


def shown_path(path: str) -> str:
    """A path as text that can be written, also where its bytes are none."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")
