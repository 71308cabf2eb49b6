"""Values as these files spell them: numbers and booleans as text, placeholders, and two ways to say nothing."""

import re
from collections.abc import Mapping
from typing import Any

from steelyard.configs.suite.keys import Kind

_LEFT_OPEN = re.compile(r"<\s*changeme\s*>", re.IGNORECASE)
_NAMED = re.compile(r"\{([A-Za-z0-9_.-]+)\}")
_ADDRESS = re.compile(r"[xX](\.[xX]){3}")

TRUE, FALSE = frozenset({"true", "1", "yes"}), frozenset({"false", "0", "no"})


def left_open(value: Any) -> bool:
    """Whether a person was meant to put something here and did not."""
    return isinstance(value, str) and bool(_LEFT_OPEN.search(value) or _ADDRESS.fullmatch(value.strip()))


def substituted(text: str, names: Mapping[str, str]) -> str:
    """The text with `{user-id}` and its like filled in; ValueError names one that cannot be."""
    found = _NAMED.sub(lambda match: names.get(match[1], match[0]), text)
    for match in _NAMED.finditer(found):
        if match[1] in names:
            raise ValueError(f"the placeholder {{{match[1]}}} names itself")
        raise ValueError(f"the placeholder {{{match[1]}}} is not known, expected one of {_listed(names)}")
    return found


def _listed(names: Mapping[str, str]) -> str:
    return ", ".join(f"{{{name}}}" for name in names)


def converted(value: Any, kind: Kind) -> Any:
    """The value as its kind; ValueError says what was expected."""
    if kind == "mapping":
        if not isinstance(value, dict):
            raise ValueError("a mapping of keys")
        return value
    if kind == "list":
        return _list(value)
    if isinstance(value, dict | list) or value is None:
        raise ValueError(_EXPECTED[kind])
    if kind == "text":
        return _text(value)
    if kind == "flag":
        return _flag(value)
    return _number(value, kind)


_EXPECTED = {
    "whole": "a whole number",
    "number": "a number",
    "flag": "True or False",
    "text": "text",
    "list": "a list",
    "mapping": "a mapping of keys",
}


def _text(value: Any) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return "" if text in ("''", '""') else text


def _flag(value: Any) -> bool:
    word = str(value).strip().lower()
    if word in TRUE or word in FALSE:
        return word in TRUE
    raise ValueError(_EXPECTED["flag"])


def _number(value: Any, kind: Kind) -> int | float:
    if isinstance(value, bool):
        raise ValueError(_EXPECTED[kind])
    text = str(value).strip()
    if not re.fullmatch(r"[-+]?(\d[\d_]{0,30}\.?\d{0,30}|\.\d{1,30})([eE][-+]?\d{1,3})?", text) or "__" in text:
        raise ValueError(_EXPECTED[kind])
    try:
        number = float(text)
    except ValueError:  # an underscore where none may be
        raise ValueError(_EXPECTED[kind]) from None
    if not abs(number) < 2**63:
        raise ValueError(f"{_EXPECTED[kind]} below 2^63")
    if kind == "number":
        return number
    if number != int(number):
        raise ValueError(_EXPECTED[kind])
    return int(text.replace("_", "")) if re.fullmatch(r"[-+]?[\d_]+", text) else int(number)


def _list(value: Any) -> list[str]:
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()]
    if not isinstance(value, list) or not all(isinstance(one, str | int | float) for one in value):
        raise ValueError("a list of texts")
    return [str(one) for one in value]
