"""Reads untrusted files of a run: strict JSON of bounded size and depth, lines of bounded size."""

import io
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from steelyard.errors import InputError
from steelyard.files import open_regular, place_of, read_document

MOST_BYTES = 16 << 20
"""Limit of a document; the manifest of a run on 10,000 hosts has 1 MiB."""
MOST_DEEP = 64
"""Limit of nesting; our documents have 8 levels."""
LINE_BYTES = 1 << 20
"""Limit of a line; a step has hundreds of bytes, the counters of a host thousands."""


def read_json(path: Path) -> Any:
    """Read a JSON document; FileNotFoundError if missing, ValueError with the reason if invalid."""
    try:
        content = read_document(path, most_bytes=MOST_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        raise
    except OSError as reason:
        raise ValueError(reason.strerror) from None
    return strict_json(content)


def strict_json(text: bytes) -> Any:
    """Parse strict JSON; ValueError with the reason if invalid."""
    try:
        value = json.loads(text.decode(), parse_constant=_refuse, parse_float=_finite)
    except UnicodeDecodeError:
        raise ValueError("not UTF-8") from None
    except RecursionError:
        raise ValueError(f"nested deeper than {MOST_DEEP} levels") from None
    if text.count(b"[") + text.count(b"{") > MOST_DEEP and _is_deeper(value, MOST_DEEP):
        raise ValueError(f"nested deeper than {MOST_DEEP} levels")
    return value


def _is_deeper(value: Any, levels: int) -> bool:
    layer = [value]
    for _ in range(levels):
        holders = (outer.values() if isinstance(outer, dict) else outer for outer in layer if _holds(outer))
        layer = [inner for holder in holders for inner in holder]
    return any(map(_holds, layer))


def _holds(value: Any) -> bool:
    return isinstance(value, dict | list)


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is not valid JSON")


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"{digits[:20]} is too large")
    return value


def open_record(path: Path) -> BinaryIO:
    """Open a file of a run; a missing file is empty."""
    try:
        return open_regular(path)
    except FileNotFoundError:
        return io.BytesIO()
    except OSError as reason:
        raise unreadable(path, reason.strerror or str(reason)) from None


def blocks(path: Path, size: int = LINE_BYTES) -> Iterator[bytes]:
    """A file in blocks of about `size` bytes, each ending at the end of a line, except perhaps the last."""
    with open_record(path) as file:
        while block := _read(path, file, size):
            if not block.endswith(b"\n"):
                block += _read(path, file, LINE_BYTES + 1, to_line_end=True)
            if len(block) - 1 - block.rfind(b"\n", 0, -1) > LINE_BYTES + 1:
                raise unreadable(path, f"a line is longer than {LINE_BYTES >> 20} MiB")
            yield block


def line_blocks(path: Path, size: int = LINE_BYTES) -> Iterator[bytes]:
    """A file in blocks of whole lines, without an incomplete last line."""
    for block in blocks(path, size):
        if whole := block[: block.rfind(b"\n") + 1]:
            yield whole


def whole_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The complete lines of a file, with their numbers."""
    return enumerate((line for block in line_blocks(path) for line in io.BytesIO(block)), start=1)


def unreadable(path: Path, reason: str) -> InputError:
    """The error for an unreadable file of a run."""
    return InputError(f"{place_of(path)} cannot be read ({reason})", key="RUN", value=str(path))


def unreadable_line(path: Path, place: str, reason: object) -> InputError:
    return InputError(f"{place_of(path)}: {place} cannot be read ({reason})", key="RUN", value=str(path))


def _read(path: Path, file: BinaryIO, size: int, to_line_end: bool = False) -> bytes:
    try:
        return file.readline(size) if to_line_end else file.read(size)
    except OSError as reason:
        raise unreadable(path, reason.strerror or str(reason)) from None
