"""Reads the source of a log in blocks: a file, compressed or not, a pipe, or a growing file."""

import gzip
import io
import os
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from steelyard.errors import InputError
from steelyard.frameworks.logs.cutter import LineCutter
from steelyard.secrets import redact

STDIN = "-"
BLOCK_BYTES = 1 << 18
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_POLL_S = 0.5

MOST_UNPACKED = 64 << 30
"""Limit of unpacked bytes: 1,000 times a usual log."""


class BrokenFileError(Exception):
    """A truncated or corrupt file."""


class Unpacked:
    """The content of a compressed file, up to a limit."""

    def __init__(self, path: str, file: BinaryIO, stream: Any, most_bytes: int) -> None:
        self._path, self._file, self._most, self._left = path, file, most_bytes, most_bytes
        self._stream, self._read = stream, getattr(stream, "read1", stream.read)

    def read(self, size: int) -> bytes:
        """The next bytes; BrokenFileError if truncated or corrupt, InputError above the limit."""
        try:
            data: bytes = self._read(size)
        except (EOFError, zlib.error, gzip.BadGzipFile) as reason:
            raise BrokenFileError(f"{self._path} is truncated or corrupt ({reason})") from None
        except Exception as reason:
            if type(reason).__name__ != "ZstdError":
                raise
            raise BrokenFileError(f"{self._path} is truncated or corrupt ({reason})") from None
        self._left -= len(data)
        if self._left < 0:
            raise InputError(
                f"{self._path} unpacks to more than {in_units(self._most)}",
                key="--max-unpacked",
                value=in_units(self._most),
                expected="a smaller log, or a larger limit",
                next=f"steelyard ingest {self._path} --max-unpacked {in_units(16 * self._most)}",
            )
        return data

    def fileno(self) -> int:
        return self._file.fileno()

    def __enter__(self) -> "Unpacked":
        return self

    def __exit__(self, kind: type[BaseException] | None, ended: BaseException | None, at: TracebackType | None) -> None:
        self._stream.close()
        self._file.close()


Source = BinaryIO | Unpacked

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")


def in_units(size: int) -> str:
    """A size in the format of `--max-unpacked`, such as 64GiB."""
    for power in range(len(_UNITS) - 1, 0, -1):
        if size >= 1 << (10 * power) and not size % (1 << (10 * power)):
            return f"{size >> (10 * power)}{_UNITS[power]}"
    return f"{size}"


def size_of(text: str) -> int | None:
    """The bytes of a size such as 512MiB, 2TiB or 1000000; None for any other text."""
    for power, unit in enumerate(_UNITS):
        number = text.removesuffix(unit) if power else text
        if (not power or number != text) and number.isascii() and number.isdigit() and len(number) <= 15:
            return int(number) << (10 * power)
    return None


def open_source(path: str, most_unpacked: int = MOST_UNPACKED) -> Source:
    """Open a log, decompressed; InputError if it cannot be read."""
    if path == STDIN:
        peek = getattr(sys.stdin.buffer, "peek", None)
        return _unpacked(path, sys.stdin.buffer, peek(4)[:4] if peek else b"", most_unpacked)
    try:
        file = Path(path).open("rb")  # noqa: SIM115 - the reader closes it
    except OSError as reason:
        raise InputError(
            f"{path} cannot be read ({reason.strerror})",
            key="PATH",
            value=path,
            expected="a log, a result file, a folder of TensorBoard event files, or - for standard input",
            next=f"steelyard ingest {path.rstrip('/')}/*.log" if Path(path).is_dir() else f"ls -l {shown_path(path)}",
        ) from None
    if not file.seekable():  # a named pipe
        return file
    magic = file.read(4)
    file.seek(0)
    return _unpacked(path, file, magic, most_unpacked)


def _unpacked(path: str, file: BinaryIO, magic: bytes, most_unpacked: int) -> Source:
    if magic.startswith(_GZIP):
        return Unpacked(path, file, gzip.GzipFile(fileobj=file), most_unpacked)
    if magic.startswith(_ZSTD):
        import zstandard

        stream = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
        return Unpacked(path, file, stream, most_unpacked)
    return file


def is_plain_file(path: str) -> bool:
    """Whether it is an uncompressed file, not a pipe."""
    if path == STDIN or not Path(path).is_file():
        return False
    with open_source(path) as source:
        return isinstance(source, io.BufferedReader)


def send(source: BinaryIO, copy: BinaryIO, end: int) -> None:
    """Continue a copy up to byte `end`, the part that was read."""
    sent = os.fstat(copy.fileno()).st_size
    while sent < end and (now := os.sendfile(copy.fileno(), source.fileno(), sent, end - sent)):
        sent += now


def blocks(source: Source) -> Iterator[bytes]:
    """A source in blocks; BrokenFileError if its compressed data is truncated."""
    read = getattr(source, "read1", source.read)
    while data := read(BLOCK_BYTES):
        yield data


def lines(source: Source) -> Iterator[bytes]:
    """The lines of a source with newlines; very long lines are cut."""
    cutter = LineCutter()
    for block in blocks(source):
        yield from (line + b"\n" for line in cutter.feed(block))
    yield from cutter.rest()


def beginning(path: str, most_bytes: int) -> bytes:
    """The first bytes of a file, decompressed; of a truncated file, up to the end."""
    start = bytearray()
    with open_source(path) as source:
        try:
            for block in blocks(source):
                start += block
                if len(start) >= most_bytes:
                    break
        except BrokenFileError:
            pass  # recorded when the whole file is read
    return bytes(start[:most_bytes])


def keep_copy(path: str, to: Path, most_unpacked: int) -> None:
    """Copy a file into the run without secrets, up to its end or the first corrupt byte."""
    if path == STDIN:
        return
    with open_source(path, most_unpacked) as source, to.open("wb") as copy:
        try:
            for line in lines(source):
                copy.write(redact(line)[0])
        except BrokenFileError:
            pass  # recorded when it was read


def following(path: str, source: Source, ended: Callable[[], bool], idle: Callable[[], None]) -> Iterator[bytes]:
    """A growing file, until `ended`; `idle` is called whenever all of it is read."""
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
            raise BrokenFileError(f"{path} was truncated, replaced or removed while it was followed")
        time.sleep(_POLL_S)


def _is_another(path: str, source: Source, read: int) -> bool:
    """Whether the path is another file now, or the file is shorter than what was read."""
    try:
        now, ours = Path(path).stat(), os.fstat(source.fileno())
    except OSError:
        return True
    return now.st_ino != ours.st_ino or (isinstance(source, io.BufferedReader) and now.st_size < read)


def shown_path(path: str) -> str:
    """A path as printable text, also if its bytes are not UTF-8."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")
