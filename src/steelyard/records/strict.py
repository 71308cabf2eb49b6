"""JSON as the standard has it, of bounded size and depth: what a record of ours holds, and nothing else."""

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

from steelyard.files import read_document

MOST_BYTES = 16 << 20
"""Of a document: the largest of ours, the manifest of a run over 10,000 hosts, has 1 MiB."""
MOST_DEEP = 64
"""Values inside values; ours have 8."""


def read_json(path: Path) -> Any:
    """The value a document holds; FileNotFoundError where there is none, else a ValueError that says what is wrong."""
    try:
        content = read_document(path, most_bytes=MOST_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        raise
    except OSError as reason:
        raise ValueError(reason.strerror) from None
    return strict_json(content)


def strict_json(text: bytes) -> Any:
    """The value some bytes hold; a ValueError says why they are not JSON of ours."""
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
    inside = [value]
    for _ in range(levels):
        inside = [inner for outer in inside for inner in _held_by(outer)]
    return any(isinstance(outer, dict | list) for outer in inside)


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"{digits[:20]} is larger than any number of a record")
    return value


def _held_by(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()
