"""Thins a curve for drawing: of every stretch the first, the lowest, the highest and the last value stay."""

import numpy as np

from steelyard.records.columns import Column, Floats, Whole
from steelyard.report.page import Line

STRETCHES = 2000
"""Four values of each at most: more than a screen has columns, and room to zoom."""


def thinned(label: str, x: Whole, column: Column, scale: float = 1.0) -> Line:
    """A curve of a column, with gaps where values are missing and the places where they are not finite."""
    kept = keep(np.where(column.finite, column.values, np.nan))
    broken = np.flatnonzero(column.nonfinite)
    broken = broken[np.unique(np.linspace(0, len(broken) - 1, min(len(broken), STRETCHES)).astype(int))]
    ys = column.values[kept] * scale
    return Line(
        label,
        x[kept].tolist(),
        [float(f"{y:.6g}") if np.isfinite(y) else None for y in ys],
        x[broken].tolist(),
    )


def keep(values: Floats) -> Whole:
    """Indices to draw; NaN is a gap, and one of each gap stays."""
    count = len(values)
    if count <= 4 * STRETCHES:
        return np.arange(count)
    size = -(-count // STRETCHES)
    padded = np.pad(values, (0, STRETCHES * size - count), constant_values=np.nan).reshape(STRETCHES, size)
    start = np.arange(STRETCHES) * size
    lowest = start + np.argmin(np.where(np.isnan(padded), np.inf, padded), axis=1)
    highest = start + np.argmax(np.where(np.isnan(padded), -np.inf, padded), axis=1)
    gap = start + np.argmax(np.isnan(padded), axis=1)
    last = np.minimum(start + size - 1, count - 1)
    kept: Whole = np.unique(np.concatenate([start[start < count], lowest, highest, last, gap]))
    return kept[kept < count]
