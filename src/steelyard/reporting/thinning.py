"""Thins a curve: each stretch keeps its first, lowest, highest and last value, so that no spike is lost."""

import functools
from collections import Counter
from collections.abc import Sequence

import numpy as np

from steelyard.records.columns import Column, Floats, Mask, Whole
from steelyard.reporting.page import Line, Spread

STRETCHES = 2000
"""At most four values of each: more than a screen has columns, with room to zoom."""

_POINTS_OF_A_PLOT = 50_000
"""Shared by all curves of a plot, so that a page of many runs stays small."""

_STRETCHES_OF_A_SPREAD = 500


def stretches(num_lines: int) -> int:
    """Stretches per curve, for this number of curves."""
    return max(100, min(STRETCHES, _POINTS_OF_A_PLOT // (4 * num_lines)))


def thinned(label: str, x: Whole, column: Column, count: int = STRETCHES, style: int = 0) -> Line:
    """The curve of a column, with gaps for missing values and the stretches of values that are not finite."""
    kept = keep(np.where(column.finite, column.values, np.nan), count)
    y = [float(f"{value:.6g}") if np.isfinite(value) else None for value in column.values[kept]]
    return Line(label, x[kept].tolist(), y, _runs(x, column.nonfinite, count), style)


def keep(values: Floats, count: int = STRETCHES) -> Whole:
    """Indices to draw. NaN is a gap; one index of each gap is kept."""
    total = len(values)
    if total <= 4 * count:
        return np.arange(total)
    size = -(-total // count)
    padded = np.pad(values, (0, count * size - total), constant_values=np.nan).reshape(count, size)
    start = np.arange(count) * size
    lowest = start + np.argmin(np.where(np.isnan(padded), np.inf, padded), axis=1)
    highest = start + np.argmax(np.where(np.isnan(padded), -np.inf, padded), axis=1)
    gap = start + np.argmax(np.isnan(padded), axis=1)
    last = np.minimum(start + size - 1, total - 1)
    kept: Whole = np.unique(np.concatenate([start[start < total], lowest, highest, last, gap]))
    return kept[kept < total]


def covered(lines: Sequence[Line]) -> list[str]:
    """Says that curves are identical, since one of them then covers the others."""
    curves = [(line.style, (*line.x, None, *line.y)) for line in lines]
    if len(curves) > 1 and len({curve for _, curve in curves}) == 1:
        return ["The curves are identical."]
    sides = [Counter(curve for style, curve in curves if style == side) for side in (0, 1)]
    return ["The curves of both sides are identical."] if sides[0] == sides[1] else []


def reach(label: str, curves: Sequence[tuple[Whole, Column]], style: int = 0) -> Spread | None:
    """The lowest and highest of several curves, at the steps that all of them have; each stretch keeps its extremes."""
    steps = shared_steps([x[column.finite] for x, column in curves])
    if not len(steps):
        return None
    rows = np.array([_at(steps, x, column) for x, column in curves])
    size = -(-len(steps) // _STRETCHES_OF_A_SPREAD)
    starts = np.arange(0, len(steps), size)
    low, high = np.minimum.reduceat(rows.min(axis=0), starts), np.maximum.reduceat(rows.max(axis=0), starts)
    x = steps[np.minimum(starts + size // 2, len(steps) - 1)]
    x[0], x[-1] = steps[0], steps[-1]
    return Spread(label, x.tolist(), _digits(low), _digits(high), style)


def shared_steps(curves: Sequence[Whole]) -> Whole:
    """The steps that all curves have, each once; their steps are sorted. Curves of equal steps take no search."""
    once = [steps[np.append(True, np.diff(steps) > 0)] if len(steps) else steps for steps in curves]
    return functools.reduce(_shared, once)


def _shared(steps: Whole, others: Whole) -> Whole:
    if np.array_equal(steps, others):
        return steps
    shared: Whole = np.intersect1d(steps, others, assume_unique=True)
    return shared


def _at(steps: Whole, x: Whole, column: Column) -> Floats:
    """Values of a curve at some of its steps; the last value of a repeated step."""
    given = x[column.finite]
    values: Floats = column.values[column.finite][np.searchsorted(given, steps, side="right") - 1]
    return values


def _digits(values: Floats) -> list[float]:
    return [float(f"{value:.6g}") for value in values]


def _runs(x: Whole, mask: Mask, count: int) -> Sequence[tuple[int, int]]:
    """First and last x of each stretch of `mask`; if there are too many, the first in each part of the curve."""
    edges = np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8))
    first, last = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1) - 1
    if len(first) > count:
        part = first * count // len(mask)
        kept = np.flatnonzero(np.diff(part, prepend=-1))
        first, last = first[kept], last[kept]
    return list(zip(x[first].tolist(), x[last].tolist(), strict=True))
