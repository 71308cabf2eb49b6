"""Reads YAML 1.2 strictly: no duplicate key, nothing that is not text."""

import re
from collections.abc import Iterator
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.composer import Composer
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, SequenceNode

from steelyard.experiment.json_text import Place, TextError
from steelyard.experiment.limits import MAX_DEPTH, MAX_VALUES, check_size, too_deep, too_many_values
from steelyard.experiment.problems import plain
from steelyard.experiment.reading import PointerPath

_MERGE = "tag:yaml.org,2002:merge"


class _BoundedComposer(Composer):
    """Stops at more nodes, or deeper ones, than a config has."""

    nodes = levels = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        self.nodes += 1
        if self.nodes > 2 * MAX_VALUES:  # a key and its value are two
            raise too_many_values()
        self.levels += 1
        if self.levels > MAX_DEPTH:
            raise too_deep()
        node = super().compose_node(parent, index)
        self.levels -= 1
        return node


def parsed(text: str) -> tuple[Any, Node | None]:
    """The value, and the nodes it was made from; ValueError says what is wrong and where."""
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
        raise ValueError("is nested too deeply to be an experiment") from None
    except (KeyError, TypeError, AttributeError, OverflowError) as reason:  # a tag the value does not suit
        raise ValueError(f"holds a value that cannot be read ({type(reason).__name__}: {reason})"[:200]) from None


def _check_merges(root: Node | None) -> None:
    """Refuse merge keys (<<) that multiply one another: each level may double the one before it."""
    sizes: dict[int, int] = {}

    def size(node: Node) -> int:
        if id(node) not in sizes:
            sizes[id(node)] = 0  # where it merges itself
            merged = [value for key, value in node.value if key.tag == _MERGE]
            sources = [
                source for value in merged for source in (value.value if isinstance(value, SequenceNode) else [value])
            ]
            sizes[id(node)] = len(node.value) + sum(size(one) for one in sources if isinstance(one, MappingNode))
            if sizes[id(node)] > MAX_VALUES:
                raise too_many_values()
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
    """The value of one YAML scalar, as `--set` takes it."""
    value, _ = parsed(text)
    check_size(value)
    return value


def places(root: Node | None) -> Iterator[Place]:
    """Every key and element below a node, in order."""
    left: list[tuple[PointerPath, Node, int]] = [((), root, 0)] if root is not None else []
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
            if depth < 20:  # an alias may hold itself
                left.append((place, value, depth + 1))
