"""What all figures share: text, colors, axes, levels and the legend."""

import functools
import math
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from steelyard.inert import inert
from steelyard.reporting.page import Level, Tone

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_HUES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")
"""Okabe and Ito's colors: distinct for color-blind readers, and in gray by dashes and hatches."""
MARKERS = ("o", "s", "^", "D")
TONES = {
    Tone.GOOD: "#009e73",
    Tone.BAD: "#b2182b",
    Tone.UNSURE: "#b07c00",
    Tone.NOTE: "#0072b2",
    Tone.PLAIN: "#666666",
}
LEVEL, BAND = "#555555", "#56b4e9"
_LEVEL_DASHES: tuple[Any, ...] = (":", "-.", (0, (6, 2, 1, 2)), (0, (3, 1, 1, 1, 1, 1)))
FONT = "DejaVu Sans"
"""Comes with matplotlib, so that every machine draws alike."""
_WIDTH = 6.3
"""Inches: the text width of a page."""
HEIGHT = 2.9
LINE = 0.135
"""Inches per line of small text."""
NAME = 30
"""Characters of a name on an axis."""
SHOWN = 3.0
"""A level further from the values than this many times their range is named only."""


def text_of(text: str, most: int = 100) -> str:
    """Text of limited length, with characters that the font lacks written as their numbers."""
    known = _glyphs()
    text = "".join(char if ord(char) in known else f"[U+{ord(char):04X}]" for char in inert(text))
    return text if len(text) <= most else f"{text[: most - 1]}\N{HORIZONTAL ELLIPSIS}"


@functools.cache
def _glyphs() -> frozenset[int]:
    from matplotlib.font_manager import findfont, get_font

    return frozenset(get_font(findfont(FONT)).get_charmap())


def hue_of(style: int) -> str:
    return _HUES[style % len(_HUES)]


def axes_of(figure: "Figure", height: float) -> "Axes":
    figure.set_size_inches(_WIDTH, height)
    return figure.add_subplot()


def name_axes(axes: "Axes", title: str, unit: str) -> None:
    axes.set_title(text_of(", ".join(filter(None, (title, unit)))), loc="left")


def number_axis(axes: "Axes", which: Literal["x", "y"], low: float, high: float) -> None:
    """Ticks between two values, all with the same decimals and with their thousands marked."""
    getattr(axes, f"set_{which}lim")(low, high)
    ticks = [tick for tick in getattr(axes, f"get_{which}ticks")() if low <= tick <= high]
    step = min((after - tick for tick, after in pairwise(ticks)), default=1.0)
    digits = next((digits for digits in range(8) if abs(round(step, digits) - step) < 1e-3 * step), 8)
    texts = [f"{tick:,.{digits}f}" if step >= 1e-6 else f"{tick:g}" for tick in ticks]
    getattr(axes, f"set_{which}ticks")(ticks, texts)


class Key:
    """The legend, below the plot so that it covers no curve."""

    def __init__(self) -> None:
        self.entries: list[tuple[Any, str]] = []
        self.notes: list[str] = []

    def add(self, handle: Any, label: str) -> None:
        self.entries.append((handle, text_of(label)))

    def below(self, figure: "Figure") -> None:
        from matplotlib.patches import Patch

        entries = [*self.entries, *((Patch(alpha=0), text_of(note)) for note in self.notes)]
        if not entries:
            return
        handles, labels = zip(*entries, strict=True)
        longest = max(map(len, labels))
        columns = max(1, min(len(labels), 4, 110 // (longest + 8)))
        rows = math.ceil(len(labels) / columns)
        width, height = figure.get_size_inches()
        figure.set_size_inches(width, height + 1.3 * LINE * rows)
        figure.legend(handles, labels, loc="outside lower center", ncols=columns, handlelength=2.4)


def draw_levels(axes: "Axes", levels: Sequence[Level], view: tuple[float, float], key: Key) -> None:
    """Horizontal lines; one out of sight is named in the legend."""
    low, high = view
    for at, level in enumerate(sorted(levels, key=lambda level: -level.value)):
        label = level.label if level.stated else f"{level.label} {level.value:,.5g}"
        if low <= level.value <= high:
            dashes = _LEVEL_DASHES[at % len(_LEVEL_DASHES)]
            key.add(axes.axhline(level.value, color=LEVEL, linestyle=dashes, linewidth=1.1), label)
        else:
            key.notes.append(f"{label} ({'above' if level.value > high else 'below'} the plot)")
