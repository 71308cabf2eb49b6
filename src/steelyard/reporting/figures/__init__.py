"""Draws the plots of a report as image files, for print and for readers who cannot tell colors apart.

matplotlib is imported when a figure is drawn. The same plot gives the same bytes.
"""

import io
import re
from typing import Any, Literal

from steelyard.errors import InputError, NotInstalledError
from steelyard.reporting.bars import Bars
from steelyard.reporting.figures.common import FONT
from steelyard.reporting.figures.curves import draw_chart
from steelyard.reporting.figures.ratios import draw_bars, draw_intervals, draw_waterfall
from steelyard.reporting.page import Chart, IntervalPlot, WaterfallPlot

Form = Literal["svg", "png", "pdf"]
FORMS: tuple[Form, ...] = ("svg", "png", "pdf")
INLINE: tuple[Form, ...] = ("svg", "png")
"""Forms that a Markdown page can show."""
Drawing = Chart | IntervalPlot | WaterfallPlot | Bars

MARK = "steelyard-report-figure"
"""In the metadata of every figure, so that our own files can be replaced."""

_METADATA: dict[Form, dict[str, str | None]] = {
    "svg": {"Creator": MARK, "Date": None},
    "png": {"Software": MARK},
    "pdf": {"Creator": MARK, "Producer": None, "CreationDate": None},
}
_STYLE: dict[Any, Any] = {
    "font.family": FONT,
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#555555",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.6,
    "hatch.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "pdf.fonttype": 42,
    "svg.fonttype": "path",
    "svg.hashsalt": "steelyard",
    "text.parse_math": False,  # a name with dollar signs is text
}
_DPI = 200
INSTALL = "pip install 'steelyard[paper]'"


def forms_of(asked: str | None) -> list[Form]:
    """The forms of `--figures`, such as `svg,png`; none without it."""
    names = list(dict.fromkeys(name.strip() for name in asked.split(","))) if asked is not None else []
    forms = [form for name in names for form in FORMS if form == name]
    if len(forms) < len(names):
        expected = f"one or more of {', '.join(FORMS)}"
        complaint = f"--figures {asked!r} is not a form of image"
        raise InputError(complaint, key="--figures", value=asked, expected=expected, next="--figures svg")
    return forms


def figure_name(title: str) -> str:
    """The title as a safe part of a file name."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:60].strip("-") or "figure"


def draw(drawing: Drawing, form: Form) -> bytes:
    """The content of an image file."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        complaint, expected = "matplotlib is not installed, and figures are drawn with it", "steelyard[paper]"
        raise NotInstalledError(complaint, key="--figures", value=form, expected=expected, next=INSTALL) from None
    with mpl.rc_context():
        mpl.rcdefaults()  # whatever the user's own style is
        mpl.rcParams.update(_STYLE)
        figure = Figure(layout="constrained")
        match drawing:
            case IntervalPlot():
                draw_intervals(figure, drawing)
            case WaterfallPlot():
                draw_waterfall(figure, drawing)
            case Bars():
                draw_bars(figure, drawing)
            case Chart():
                draw_chart(figure, drawing)
        content = io.BytesIO()
        figure.savefig(content, format=form, dpi=_DPI, metadata=_METADATA[form])
    return content.getvalue()
