"""Strict JSON, and where each key of a text stands."""

import json
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from steelyard.experiment.reading import PointerPath

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+')


class TextError(ValueError):
    """Text that is neither YAML nor JSON, and where."""

    def __init__(self, line: int, column: int, problem: str) -> None:
        super().__init__(f"line {line}, column {column}: {problem}")
        self.line = line


def parse_json(text: str) -> Any:
    """The value; ValueError says what is wrong and on which line."""
    try:
        return json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError as reason:
        raise TextError(reason.lineno, reason.colno, reason.msg) from None
    except RecursionError:
        raise ValueError("is nested too deeply to be a config") from None


def _no_constant(word: str) -> Any:
    raise ValueError(f"holds {word}, which is no number")


@dataclass(frozen=True, slots=True)
class Place:
    """A key or an element: its path and the line it starts on."""

    path: PointerPath
    line: int
    at: int = 0
    """Offset of its first character."""
    again: bool = False
    """The same mapping had this key before."""


@dataclass(slots=True)
class _Open:
    path: PointerPath
    mapping: bool
    at: int = 0
    seen: set[str] = field(default_factory=set)
    key: str | None = None


def places(text: str) -> Iterator[Place]:
    """Every key and element of a text that parses, in order."""
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    stack: list[_Open] = []
    for match in _TOKEN.finditer(text):
        token = match[0]
        here = stack[-1] if stack else None
        if here is not None and here.mapping and here.key is None and token[0] == '"':
            here.key = json.loads(token, strict=False)
            again = here.key in here.seen
            here.seen.add(here.key)
            yield Place((*here.path, here.key), bisect_right(starts, match.start()), match.start(), again)
        elif token in "}]":
            stack.pop()
        elif token == ",":
            assert here is not None
            here.key, here.at = None, here.at + 1
        elif token != ":":
            path = () if here is None else (*here.path, here.key if here.mapping and here.key else str(here.at))
            if here is not None and not here.mapping:
                yield Place(path, bisect_right(starts, match.start()), match.start())
            if token in "{[":
                stack.append(_Open(path, token == "{"))
