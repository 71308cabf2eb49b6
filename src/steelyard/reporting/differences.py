"""Finds where two files differ that should be equal: line, column, and both texts."""

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

TEXTS = (".html", ".md", ".tex", ".csv", ".svg", ".json")
"""Formats that are compared line by line; others are compared as a whole."""
ROUNDING = 1e-12
"""Relative difference between sums that processors add up in another order."""
MOST = 5
"""Differences of one file that are shown."""
FIGURES = ("figures", "runs", "throughput_speedup", "memory_usage_efficiency", "flops_utilization", "outliers")
"""Keys of verdict.json, comparison.json and fleet.json with figures, which every version has."""
_AROUND = 40
_FLOAT = re.compile(rb"-?\d+(?:\.\d+(?:[eE][+-]?\d+)?|[eE][+-]?\d+)")


@dataclass(frozen=True, slots=True)
class Difference:
    """The texts around the first character that differs; None where a file has no such line."""

    line: int
    column: int
    bundled: str | None
    remade: str | None


def differences(bundled: bytes, remade: bytes, rounding: bool) -> tuple[list[Difference], int]:
    """The first lines that differ and the number of all; with `rounding`, except in the last digits of numbers."""
    lines = enumerate(itertools.zip_longest(bundled.split(b"\n"), remade.split(b"\n")), start=1)
    apart = [
        (number, ours, theirs)
        for number, (ours, theirs) in lines
        if ours != theirs and not (rounding and ours and theirs and _nearly(ours, theirs))
    ]
    return [_difference(*line) for line in apart[:MOST]], len(apart)


def figures_apart(bundled: Any, remade: Any) -> list[tuple[str, float, float]]:
    """The figures of two JSON documents that differ, by their places: what is in one document only is left out."""
    ours, theirs = (dict(_figures(document, "")) for document in (bundled, remade))
    return [(at, value, theirs[at]) for at, value in ours.items() if at in theirs and not _alike(value, theirs[at])]


def _figures(value: Any, place: str) -> Iterator[tuple[str, float]]:
    """Numbers below the keys of figures; texts and flags may be those of another version."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if place or key in FIGURES:
                yield from _figures(inner, f"{place}/{key}")
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from _figures(inner, f"{place}/{at}")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield place, value


def _alike(value: float, other: float) -> bool:
    return abs(value - other) <= ROUNDING * max(abs(value), abs(other), 1.0)


def _nearly(line: bytes, other: bytes) -> bool:
    """Whether two lines differ in the last digits of numbers only."""
    if _FLOAT.split(line) != _FLOAT.split(other):
        return False
    pairs = zip(map(float, _FLOAT.findall(line)), map(float, _FLOAT.findall(other)), strict=True)
    return all(_alike(*pair) for pair in pairs)


def _difference(number: int, bundled: bytes | None, remade: bytes | None) -> Difference:
    ours, theirs = (None if line is None else line.decode(errors="replace") for line in (bundled, remade))
    pairs = enumerate(zip(ours or "", theirs or "", strict=False))
    column = next((at for at, (char, other) in pairs if char != other), min(len(ours or ""), len(theirs or "")))
    return Difference(number, column + 1, _around(ours, column), _around(theirs, column))


def _around(line: str | None, column: int) -> str | None:
    if line is None:
        return None
    first, last = max(0, column - _AROUND), column + _AROUND
    cut = "\N{HORIZONTAL ELLIPSIS}"
    return f"{cut * (first > 0)}{line[first:last]}{cut * (last < len(line))}"
