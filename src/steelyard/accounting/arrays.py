"""Long numpy columns: selecting rows and iterating over them without full copies, and robust spread."""

from collections.abc import Iterator
from typing import TypeVar

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Kind = TypeVar("Kind", bound=np.generic)

BLOCK = 1 << 16
"""Rows per block: 512 KiB of numbers."""
SIGMAS = 1.4826
"""Standard deviation of normal noise per median absolute deviation: 1 / 0.6745."""


def chosen(values: npt.NDArray[Kind], mask: Mask) -> npt.NDArray[Kind]:
    """`values[mask]`, as a view if the selected rows are contiguous, as in most steady windows."""
    if not mask.any():
        return values[:0]
    first, last = int(np.argmax(mask)), len(mask) - int(np.argmax(mask[::-1]))
    return values[first:last] if mask[first:last].all() else values[mask]


def row_of(mask: Mask, at: int) -> int:
    """The row number of selected row `at`, counted from 0."""
    for part in blocks(len(mask)):
        count = int(np.count_nonzero(mask[part]))
        if at < count:
            return int(part.start + np.flatnonzero(mask[part])[at])
        at -= count
    raise IndexError("fewer rows are selected")


def last_row(mask: Mask) -> int:
    return len(mask) - 1 - int(np.argmax(mask[::-1]))


def blocks(rows: int) -> Iterator[slice]:
    """All rows in blocks."""
    for begin in range(0, rows, BLOCK):
        yield slice(begin, min(begin + BLOCK, rows))


def around_median(values: Floats) -> tuple[Floats, Floats]:
    """The median along the last axis, and the standard deviation around it, robust to outliers."""
    median = np.median(values, axis=-1)
    return median, SIGMAS * np.median(np.abs(values - median[..., None]), axis=-1)
