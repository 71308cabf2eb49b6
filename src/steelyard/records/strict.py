"""JSON as the standard has it: Python's reader also takes NaN and infinities, which no record of ours holds."""

import json
from typing import Any, NoReturn


def strict_json(text: str | bytes) -> Any:
    """The value a document holds; a ValueError names what is no JSON."""
    return json.loads(text, parse_constant=_refuse)


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON")
