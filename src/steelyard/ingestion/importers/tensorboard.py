"""TensorBoard event files: one file, or a folder with the files of one run."""

import os
import shutil
import struct
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from steelyard.errors import InputError
from steelyard.files import open_regular
from steelyard.frameworks.registry import facts
from steelyard.ingestion.importers import Columns, Imported
from steelyard.ingestion.importers.fields import framework_of, step_of, tags
from steelyard.ingestion.sources import STDIN, BrokenFileError, shown_path
from steelyard.records.step import Event, Evidence, Step

_PATTERN = "*tfevents*"
_PENDING = 1000
_LARGEST = 4 << 20
"""Limit of a record in bytes. Scalars of one step have a few KiB; a larger record is a graph or an image and is
skipped. A parsed record takes up to 60 times its size."""
_FLOAT = 1
"""TensorFlow's number of float32."""

Scalar = tuple[int, str, float]
"""Step, tag, value."""


def recognizes(path: str, columns: Columns | None) -> bool:
    if path == STDIN:
        return False
    file = Path(path)
    return ("tfevents" in file.name and file.is_file()) or (file.is_dir() and any(file.glob(_PATTERN)))


def read(path: str, kept: str, columns: Columns | None, most_unpacked: int) -> Imported:
    known = {theirs: ours for ours, theirs in columns.items()} if columns is not None else tags()
    files = list(_files(path))
    framework = _framework(files)
    zero_based = framework is not None and facts(framework).tracker_zero_based
    return Imported("tensorboard", framework, _steps(path, files, kept, known, zero_based))


def keep(path: str, to: Path, most_unpacked: int) -> None:
    if Path(path).is_dir():
        to.mkdir()
    for file in _files(path):
        with _open(file) as source, (to / file.name if to.is_dir() else to).open("wb") as copy:
            shutil.copyfileobj(source, copy, 1 << 20)


def _files(path: str) -> Iterator[Path]:
    """The file, also through a symbolic link, or the event files in the folder."""
    if Path(path).is_dir():
        yield from sorted(file for file in Path(path).glob(_PATTERN) if not file.is_dir())
    else:
        yield Path(path).resolve()


def _open(file: Path) -> BinaryIO:
    try:
        return open_regular(file)
    except OSError as reason:
        raise InputError(
            f"{shown_path(str(file))} cannot be read ({reason.strerror})",
            key="PATH",
            value=shown_path(str(file)),
            expected="a TensorBoard event file",
            next=f"ls -l {shown_path(str(file))}",
        ) from None


def _parser(file: Path) -> tuple[Callable[[bytes], Any], Callable[[bytes], int]]:
    """The parser of records, and their checksum function."""
    try:
        from tensorboard.compat.proto.event_pb2 import Event as Message
        from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c
    except ImportError:
        raise InputError(
            f"{file.name} is a TensorBoard file, and the tensorboard package is not installed",
            key="PATH",
            value=str(file),
            expected="the package tensorboard",
            next="pip install 'steelyard[tensorboard]'",
        ) from None
    return Message.FromString, masked_crc32c


def _records(file: Path, checksum: Callable[[bytes], int]) -> Iterator[bytes]:
    """The records of a file, of bounded size; BrokenFileError if it is truncated or a checksum is wrong."""
    with _open(file) as source:
        left = os.fstat(source.fileno()).st_size
        while header := source.read(12):
            left -= len(header)
            if len(header) < 12:
                raise BrokenFileError(f"{file.name} ends within the header of a record")
            if checksum(header[:8]) != struct.unpack("<I", header[8:])[0]:
                raise BrokenFileError(f"{file.name} is corrupt: wrong checksum of a record length")
            length = struct.unpack("<Q", header[:8])[0]
            left -= length + 4
            if left < 0:
                raise BrokenFileError(f"{file.name} ends within a record of {length:,} bytes")
            if length > _LARGEST:
                source.seek(length + 4, os.SEEK_CUR)
                continue
            content, after = source.read(length), source.read(4)
            if len(after) < 4:  # truncated since it was opened
                raise BrokenFileError(f"{file.name} ends within a record of {length:,} bytes")
            if checksum(content) != struct.unpack("<I", after)[0]:
                raise BrokenFileError(f"{file.name} is corrupt: wrong checksum of a record")
            yield content


def _scalars(file: Path) -> Iterator[Scalar | Event]:
    """Scalars in order; unreadable records, and the end of a truncated file, are events."""
    parse, checksum = _parser(file)
    number = 0
    try:
        for number, record in enumerate(_records(file, checksum), start=1):
            try:
                yield from _scalars_of(parse(record))
            except Exception as reason:  # noqa: BLE001 - untrusted bytes, and the failure is recorded
                message = f"record {number} of {file.name} is unreadable ({type(reason).__name__})"
                yield Event(kind="unread_line", message=message)
    except BrokenFileError as broken:
        yield Event(kind="broken_file", message=f"{broken}, after {number:,} records")


def _scalars_of(event: Any) -> list[Scalar]:
    scalars: list[Scalar] = []
    for value in event.summary.value:
        if value.HasField("simple_value"):
            scalars.append((event.step, value.tag, value.simple_value))
        elif value.HasField("tensor") and value.tensor.dtype == _FLOAT and not value.tensor.tensor_shape.dim:
            content = value.tensor.tensor_content
            number = struct.unpack("<f", content)[0] if content else next(iter(value.tensor.float_val), None)
            if number is not None:
                scalars.append((event.step, value.tag, number))
    return scalars


def _framework(files: list[Path]) -> str | None:
    framework_by_tag = framework_of()
    for file in files:
        for at, scalar in enumerate(_scalars(file)):
            if not isinstance(scalar, Event) and scalar[1] in framework_by_tag:
                return framework_by_tag[scalar[1]]
            if at > 1000:
                break
    return None


def _steps(
    path: str, files: list[Path], kept: str, tags: Mapping[str, str], zero_based: bool
) -> Iterator[Step | Event]:
    row, broken = 0, ""
    for file in files:
        pending: OrderedDict[int, dict[str, float]] = OrderedDict()
        for scalar in _scalars(file):
            if isinstance(scalar, Event):
                broken = broken or f" ({scalar.message})"
                yield scalar
                continue
            step, tag, value = scalar
            if tag in tags:
                pending.setdefault(step, {}).setdefault(tags[tag], value)
            if len(pending) > _PENDING:
                row += 1
                yield _step(*pending.popitem(last=False), zero_based, kept, row)
        for step in sorted(pending):
            row += 1
            yield _step(step, pending[step], zero_based, kept, row)
    if not row:
        raise InputError(
            f"{path} has no known scalar{broken}",
            key="--columns",
            value=path,
            expected=f"tags such as {next(iter(tags))!r}" if tags else "tags of its scalars",
            next=f"steelyard ingest {path} --columns loss=TAG",
        )


def _step(step: int, values: dict[str, float], zero_based: bool, kept: str, row: int) -> Step | Event:
    return step_of({"step": step, **values}, zero_based, Evidence(kept, row), f"scalars of step {step}")
