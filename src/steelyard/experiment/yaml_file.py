"""Reads YAML 1.2 strictly: no duplicate key, nothing that is not text."""

from collections.abc import Iterator
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, SequenceNode

from steelyard.experiment.json_text import Place
from steelyard.experiment.limits import check_size
from steelyard.experiment.reading import PointerPath


def parsed(text: str) -> Any:
    """The value; ValueError says what is wrong and where."""
    try:
        return YAML(typ="safe", pure=True).load(text)
    except MarkedYAMLError as reason:
        mark = reason.problem_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        problem = (reason.problem or str(reason)).strip().splitlines()[0]
        raise ValueError(f"{place}{problem[:200]}") from None
    except YAMLError as reason:
        raise ValueError(str(reason).splitlines()[0][:200]) from None
    except RecursionError:
        raise ValueError("is nested too deeply to be an experiment") from None
    except (KeyError, TypeError, AttributeError, OverflowError) as reason:  # a tag the value does not suit
        raise ValueError(f"holds a value that cannot be read ({type(reason).__name__}: {reason})"[:200]) from None


def parse_scalar(text: str) -> Any:
    """The value of one YAML scalar, as `--set` takes it."""
    value = parsed(text)
    check_size(value)
    return value


def places(text: str) -> Iterator[Place]:
    """Every key and element of a text that parses, in order."""
    root = YAML(typ="safe", pure=True).compose(text)
    left: list[tuple[PointerPath, Node, int]] = [((), root, 0)] if root is not None else []
    while left:
        path, node, depth = left.pop()
        if isinstance(node, MappingNode):
            inner = [((*path, str(key.value)), key, value) for key, value in node.value]
        elif isinstance(node, SequenceNode):
            inner = [((*path, str(at)), value, value) for at, value in enumerate(node.value)]
        else:
            continue
        for place, key, value in inner:
            yield Place(place, key.start_mark.line + 1)
            if depth < 20:  # an alias may hold itself
                left.append((place, value, depth + 1))
