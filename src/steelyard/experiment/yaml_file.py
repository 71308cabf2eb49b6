"""Reads YAML 1.2 strictly: a mapping, no duplicate key, nothing that is not text."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from steelyard.errors import InputError
from steelyard.experiment.problems import UNREADABLE, InvalidExperimentError, Problem

MAX_BYTES = 4 * 1024 * 1024
"""Larger than any config; a log or checkpoint named by mistake is refused before it is parsed."""


MAX_VALUES = 100_000


@dataclass(frozen=True, slots=True)
class YamlFile:
    """What a file says, and which bytes said it."""

    path: Path
    sha256: str
    content: dict[str, Any]


def read_yaml(path: Path) -> YamlFile:
    """Read the file or say in one sentence why not."""
    data = _bytes(path)
    try:
        content = _parsed(data.decode("utf-8"))
        if not isinstance(content, dict):
            found = "is empty" if content is None else f"holds {type(content).__name__} at its top"
            raise ValueError(f"{found}, expected a mapping of keys")
    except ValueError as reason:  # UnicodeDecodeError is one
        raise _unreadable(path, str(reason)) from None
    return YamlFile(path, hashlib.sha256(data).hexdigest(), content)


def parse_scalar(text: str) -> Any:
    """The value of one YAML scalar, as `--set` takes it."""
    return _parsed(text)


def _bytes(path: Path) -> bytes:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise _unreadable(path, f"has {path.stat().st_size} bytes, expected at most {MAX_BYTES}")
        return path.read_bytes()
    except FileNotFoundError:
        raise InputError(
            f"{path}: no such file", key=None, value=str(path), expected="an experiment file", next="steelyard init"
        ) from None
    except OSError as reason:
        raise InputError(
            f"{path}: cannot be read ({reason.strerror})", value=str(path), expected="a readable experiment file"
        ) from None


def _parsed(text: str) -> Any:
    try:
        content = YAML(typ="safe", pure=True).load(text)
        _check_size(content)
        return content
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


def _check_size(content: Any) -> None:
    """Refuse aliases that multiply or hold themselves, and numbers no count or rate can be."""
    left, seen = [content], 0
    while left:
        value = left.pop()
        seen += 1
        if seen > MAX_VALUES:
            raise ValueError(f"holds more than {MAX_VALUES} values, or an alias of itself")
        if isinstance(value, int) and abs(value) >= 2**63:
            raise ValueError(f"holds a whole number of {value.bit_length()} bits, expected fewer than 64")
        if isinstance(value, dict):
            left += value.values()
        elif isinstance(value, list | set | tuple):
            left += value


def _unreadable(path: Path, reason: str) -> InvalidExperimentError:
    return InvalidExperimentError(
        [
            Problem(
                UNREADABLE,
                "error",
                str(path),
                key="",
                message=f"not a YAML experiment: {reason}",
                fix="correct the file, or start from one of `steelyard init`",
            )
        ]
    )
