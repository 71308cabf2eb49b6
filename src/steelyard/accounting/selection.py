"""Rows of long columns, chosen and gone through without copies of a column's own size."""

from collections.abc import Iterator
from typing import TypeVar

import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.bool_]
Kind = TypeVar("Kind", bound=np.generic)

BLOCK = 1 << 16
"""Rows looked at together: 512 KiB of numbers."""


def chosen(values: npt.NDArray[Kind], mask: Mask) -> npt.NDArray[Kind]:
    """`values[mask]`, as a view where the chosen rows lie together: a steady window mostly does."""
    if not mask.any():
        return values[:0]
    first, last = int(np.argmax(mask)), len(mask) - int(np.argmax(mask[::-1]))
    return values[first:last] if mask[first:last].all() else values[mask]


def row_of(mask: Mask, at: int) -> int:
    """The row of the chosen one that is `at` places after the first."""
    for part in blocks(len(mask)):
        count = int(np.count_nonzero(mask[part]))
        if at < count:
            return int(part.start + np.flatnonzero(mask[part])[at])
        at -= count
    raise IndexError("fewer rows are chosen")


def last_row(mask: Mask) -> int:
    """The last row that is chosen."""
    return len(mask) - 1 - int(np.argmax(mask[::-1]))


def blocks(rows: int) -> Iterator[slice]:
    """All rows, some at a time."""
    for begin in range(0, rows, BLOCK):
        yield slice(begin, min(begin + BLOCK, rows))
