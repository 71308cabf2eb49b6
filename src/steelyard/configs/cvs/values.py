"""Values as these files write them: numbers and booleans as text, placeholders, and two kinds of empty values."""

import getpass
import re
from collections.abc import Callable, Mapping
from typing import Any

from steelyard.configs.cvs.keys import Kind

_LEFT_OPEN = re.compile(r"<\s*changeme\s*>", re.IGNORECASE)
_NAMED = re.compile(r"\{([A-Za-z0-9_.-]+)\}")
_ADDRESS = re.compile(r"[xX](\.[xX]){3}")
_NUMBER = re.compile(r"[-+]?(\d[\d_]{0,30}\.?\d{0,30}|\.\d{1,30})([eE][-+]?\d{1,3})?")

_FLAGS = {**dict.fromkeys(("true", "1", "yes"), True), **dict.fromkeys(("false", "0", "no"), False)}


def left_open(value: Any) -> bool:
    """Whether the value is a placeholder that is not filled in."""
    return isinstance(value, str) and bool(_LEFT_OPEN.search(value) or _ADDRESS.fullmatch(value.strip()))


def this_user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "root"


def placeholder_names(user: str | None = None) -> dict[str, str]:
    """Values of the placeholders of a file, for a user or the current one."""
    user = user or this_user()
    home = "/root" if user == "root" else f"/home/{user}"
    return {"user-id": user, "user": user, "home": home, "home-mount-dir": "home", "node-dir-name": "root"}


def substituted(text: str, names: Mapping[str, str]) -> str:
    """The text with placeholders such as `{user-id}` replaced; ValueError names an unknown one."""
    filled = _NAMED.sub(lambda match: names.get(match[1], match[0]), text)
    if match := _NAMED.search(filled):
        if match[1] in names:
            raise ValueError(f"the placeholder {match[0]} contains itself")
        known = ", ".join(f"{{{name}}}" for name in names)
        raise ValueError(f"the placeholder {match[0]} is unknown, expected one of {known}")
    return filled


def converted(value: Any, kind: Kind) -> Any:
    """The value converted to its kind; the text of ValueError is what was expected."""
    expected, read = _KINDS[kind]
    result = read(value)
    if result is None:
        raise ValueError(expected)
    if isinstance(result, int | float) and abs(result) >= 2**63:
        raise ValueError(f"{expected} below 2^63")
    return result


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, dict | list):
        return None
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return "" if text in ("''", '""') else text


def _number(value: Any) -> float | None:
    text = str(value).strip()
    if isinstance(value, bool) or not _NUMBER.fullmatch(text) or "__" in text:
        return None
    try:
        return float(text)
    except ValueError:  # an underscore at a wrong position
        return None


def _whole(value: Any) -> float | None:
    number = _number(value)
    if number is None or abs(number) >= 2**63:
        return number
    if number != int(number):
        return None
    text = str(value).strip().replace("_", "")
    return int(text) if re.fullmatch(r"[-+]?\d+", text) else int(number)


def _list(value: Any) -> list[str] | None:
    items = [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value
    fits = isinstance(items, list) and all(isinstance(item, str | int | float) for item in items)
    return [str(item) for item in items] if fits else None


_KINDS: Mapping[Kind, tuple[str, Callable[[Any], Any]]] = {
    "whole": ("a whole number", _whole),
    "number": ("a number", _number),
    "flag": ("True or False", lambda value: _FLAGS.get(str(value).strip().lower())),
    "text": ("text", _text),
    "list": ("a list of text", _list),
    "mapping": ("a mapping of keys", lambda value: value if isinstance(value, dict) else None),
}
"""For each kind: what is expected, and the function that converts a value or returns None."""
