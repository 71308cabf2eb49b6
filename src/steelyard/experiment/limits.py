"""How large a config may be before it is taken for something else."""

from typing import Any

MAX_BYTES = 4 * 1024 * 1024
"""Larger than any config; a log or checkpoint named by mistake is refused before it is parsed."""

MAX_VALUES = 100_000
MAX_KEY = 1_000


def check_size(content: Any) -> None:
    """Refuse aliases that multiply or hold themselves, numbers no count or rate can be, and keys nobody typed."""
    left, seen = [content], 0
    while left:
        value = left.pop()
        seen += 1
        if seen > MAX_VALUES:
            raise ValueError(f"holds more than {MAX_VALUES:,} values, or an alias of itself")
        if isinstance(value, int) and abs(value) >= 2**63:
            raise ValueError(f"holds a whole number of {value.bit_length()} bits, expected fewer than 64")
        if isinstance(value, dict):
            for key in value:
                if isinstance(key, str) and len(key) > MAX_KEY:
                    raise ValueError(f"holds a key of {len(key):,} characters, expected at most {MAX_KEY:,}")
            left += value.values()
        elif isinstance(value, list | set | tuple):
            left += value
