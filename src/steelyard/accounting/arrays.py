"""Long columns as numpy arrays: rows chosen and gone through without copies of a column's size, spread by medians."""

from collections.abc import Iterator
from typing import TypeVar

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Kind = TypeVar("Kind", bound=np.generic)

BLOCK = 1 << 16
"""Rows looked at together: 512 KiB of numbers."""
SIGMAS = 1.4826
"""Median deviations of normal noise in one standard deviation: 1 / 0.6745."""


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
    return len(mask) - 1 - int(np.argmax(mask[::-1]))


def blocks(rows: int) -> Iterator[slice]:
    """All rows, some at a time."""
    for begin in range(0, rows, BLOCK):
        yield slice(begin, min(begin + BLOCK, rows))


def around_median(values: Floats) -> tuple[Floats, Floats]:
    """The median along the last axis, and the spread about it as a standard deviation, which few outliers move."""
    median = np.median(values, axis=-1)
    return median, SIGMAS * np.median(np.abs(values - median[..., None]), axis=-1)
