"""Reads JSON and YAML 1.2 strictly and within limits, and finds the line of each key."""

import json
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.composer import Composer
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, SequenceNode

from steelyard.experiment.problems import plain
from steelyard.experiment.reading import PointerPath

MAX_BYTES = 4 * 1024 * 1024
"""Larger than any config: a log or checkpoint given by mistake is refused before parsing."""

MAX_VALUES = 100_000
MAX_KEY = 1_000
MAX_DEPTH = 50
"""Real configs are nested six deep."""

_TOO_MANY = f"contains more than {MAX_VALUES:,} values, or an alias of itself"
_TOO_DEEP = f"is nested more than {MAX_DEPTH} deep, or contains an alias of itself"

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+')
_MERGE = "tag:yaml.org,2002:merge"


class TextError(ValueError):
    """A syntax error in YAML or JSON, with its place."""

    def __init__(self, line: int, column: int, problem: str) -> None:
        super().__init__(f"line {line}, column {column}: {problem}")
        self.line = line


def check_size(content: Any) -> None:
    """Refuse recursive or multiplying aliases, implausibly large numbers and implausibly long keys."""
    left, seen = [(content, 0)], 0
    while left:
        value, depth = left.pop()
        seen += 1
        if seen > MAX_VALUES:
            raise ValueError(_TOO_MANY)
        if depth > MAX_DEPTH:
            raise ValueError(_TOO_DEEP)
        if isinstance(value, int) and abs(value) >= 2**63:
            raise ValueError(f"contains a whole number of {value.bit_length()} bits, expected fewer than 64")
        if isinstance(value, dict):
            for key in value:
                if isinstance(key, str) and len(key) > MAX_KEY:
                    raise ValueError(f"contains a key of {len(key):,} characters, expected at most {MAX_KEY:,}")
            left += [(inner, depth + 1) for inner in value.values()]
        elif isinstance(value, list | set | tuple):
            left += [(inner, depth + 1) for inner in value]


def parse_json(text: str) -> Any:
    """The value; the text of ValueError names the error and its line."""
    try:
        return json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError as reason:
        raise TextError(reason.lineno, reason.colno, reason.msg) from None
    except RecursionError:
        raise ValueError("is nested too deeply to be a config") from None


def _no_constant(word: str) -> Any:
    raise ValueError(f"contains {word}, which is not a number")


class _BoundedComposer(Composer):
    """Stops at more or deeper nodes than a config has."""

    nodes = levels = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        self.nodes += 1
        if self.nodes > 2 * MAX_VALUES:  # a key and its value are two nodes
            raise ValueError(_TOO_MANY)
        self.levels += 1
        if self.levels > MAX_DEPTH:
            raise ValueError(_TOO_DEEP)
        node = super().compose_node(parent, index)
        self.levels -= 1
        return node


def parse_yaml(text: str) -> tuple[Any, Node | None]:
    """The value and its nodes; the text of ValueError names the error and its place."""
    yaml = YAML(typ="safe", pure=True)
    yaml.Composer = _BoundedComposer
    try:
        root = yaml.compose(text)
        _check_merges(root)
        return (None if root is None else yaml.constructor.construct_document(root)), root
    except MarkedYAMLError as reason:
        mark = reason.problem_mark
        problem = (reason.problem or str(reason)).strip().splitlines()[0]
        without_value = re.sub(r"^(found duplicate key .{1,200}?) with value .*", r"\1", problem)
        words = plain(without_value)[:200]
        raise (TextError(mark.line + 1, mark.column + 1, words) if mark else ValueError(words)) from None
    except YAMLError as reason:
        raise ValueError(str(reason).splitlines()[0][:200]) from None
    except RecursionError:
        raise ValueError("is nested too deeply to be a config") from None
    except (KeyError, TypeError, AttributeError, OverflowError) as reason:  # a tag that does not fit the value
        raise ValueError(f"contains a value that cannot be read ({type(reason).__name__}: {reason})"[:200]) from None


def _check_merges(root: Node | None) -> None:
    """Refuse merge keys (<<) that multiply: each level can double the size."""
    sizes: dict[int, int] = {}

    def size(node: Node) -> int:
        if id(node) not in sizes:
            sizes[id(node)] = 0  # for a node that merges itself
            merged = [value for key, value in node.value if key.tag == _MERGE]
            sources = [
                source for value in merged for source in (value.value if isinstance(value, SequenceNode) else [value])
            ]
            sizes[id(node)] = len(node.value) + sum(map(size, (s for s in sources if isinstance(s, MappingNode))))
            if sizes[id(node)] > MAX_VALUES:
                raise ValueError(_TOO_MANY)
        return sizes[id(node)]

    seen: set[int] = set()
    left = [root] if root is not None else []
    while left:
        node = left.pop()
        if id(node) in seen or not isinstance(node, MappingNode | SequenceNode):
            continue
        seen.add(id(node))
        if isinstance(node, MappingNode):
            size(node)
        inner = [value for _, value in node.value] if isinstance(node, MappingNode) else node.value
        left += reversed(inner)


def parse_scalar(text: str) -> Any:
    """The value of one YAML scalar, for `--set`."""
    value, _ = parse_yaml(text)
    check_size(value)
    return value


@dataclass(frozen=True, slots=True)
class Place:
    """A key or an element: its path and its first line."""

    path: PointerPath
    line: int
    at: int = 0
    """Offset of its first character."""
    again: bool = False
    """Whether the mapping had this key before."""


@dataclass(slots=True)
class _Open:
    path: PointerPath
    mapping: bool
    at: int = 0
    seen: set[str] = field(default_factory=set)
    key: str | None = None


def json_places(text: str) -> Iterator[Place]:
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


def yaml_places(root: Node) -> Iterator[Place]:
    """Every key and element below a node, in order."""
    left: list[tuple[PointerPath, Node, int]] = [((), root, 0)]
    yielded = 0
    while left:
        path, node, depth = left.pop()
        if isinstance(node, MappingNode):
            inner = [((*path, str(key.value)), key, value) for key, value in node.value]
        elif isinstance(node, SequenceNode):
            inner = [((*path, str(at)), value, value) for at, value in enumerate(node.value)]
        else:
            continue
        for place, key, value in inner:
            yielded += 1
            if yielded > MAX_VALUES:
                return
            yield Place(place, key.start_mark.line + 1)
            if depth < 20:  # an alias may contain itself
                left.append((place, value, depth + 1))
