"""How large a config may be before it is taken for something else."""

from typing import Any

MAX_BYTES = 4 * 1024 * 1024
"""Larger than any config; a log or checkpoint named by mistake is refused before it is parsed."""

MAX_VALUES = 100_000
MAX_KEY = 1_000
MAX_DEPTH = 50
"""Configs nest six deep."""

MAX_DETAILED = 100
"""Unknown keys of one mapping that are named one by one; the nearest known key of each has to be looked for."""


def too_many_values() -> ValueError:
    return ValueError(f"holds more than {MAX_VALUES:,} values, or an alias of itself")


def too_deep() -> ValueError:
    return ValueError(f"is nested more than {MAX_DEPTH} deep, or holds an alias of itself")


def check_size(content: Any) -> None:
    """Refuse aliases that multiply or hold themselves, numbers no count or rate can be, and keys nobody typed."""
    left, seen = [(content, 0)], 0
    while left:
        value, depth = left.pop()
        seen += 1
        if seen > MAX_VALUES:
            raise too_many_values()
        if depth > MAX_DEPTH:
            raise too_deep()
        if isinstance(value, int) and abs(value) >= 2**63:
            raise ValueError(f"holds a whole number of {value.bit_length()} bits, expected fewer than 64")
        if isinstance(value, dict):
            for key in value:
                if isinstance(key, str) and len(key) > MAX_KEY:
                    raise ValueError(f"holds a key of {len(key):,} characters, expected at most {MAX_KEY:,}")
            left += [(inner, depth + 1) for inner in value.values()]
        elif isinstance(value, list | set | tuple):
            left += [(inner, depth + 1) for inner in value]
