"""Plots as image files: the same bytes for the same plot, whatever text is in it."""

import io
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import matplotlib as mpl
import pytest
from PIL import Image
from pypdf import PdfReader

from steelyard.errors import InputError
from steelyard.reporting.bars import Bar, BarGroup, Bars
from steelyard.reporting.figures import FORMS, MARK, Drawing, Form, draw, figure_name
from steelyard.reporting.page import (
    Band,
    Chart,
    Dot,
    IntervalPlot,
    Level,
    Line,
    Mark,
    Spread,
    Stage,
    Table,
    Tone,
    Track,
    WaterfallPlot,
    Zone,
)

HOSTILE = "_$\\frac{1}$ \\input{/etc/passwd} <script>&\u202e\x07\u4e2d % #"
NUMBERS = Table("", [], [])
DRAWINGS: dict[str, Drawing] = {
    "chart": Chart(
        "Loss",
        "nats per token",
        "",
        NUMBERS,
        lines=[
            Line("h100", [1, 2, 3, 4], [5.0, None, 4.0, 3.5], broken=[(2, 2)]),
            Line("mi300x", [1, 2, 3, 4], [5.0, 4.6, 4.1, 3.4], style=1),
        ],
        levels=[Level("entropy floor", 1.0), Level("first loss", 5.1)],
        bands=[Band("steady window", 2, 4)],
        spreads=[Spread("range", [1, 4], [4.8, 3.3], [5.2, 3.6])],
        zones=[Zone("usual", 3.0, None)],
        dots=[Dot(2, 4.2, "node7", Tone.BAD, kind="slow", named=True)],
        settled=2,
    ),
    "intervals": IntervalPlot(
        "Throughput speedup",
        "",
        [
            Track("ratio", "1.07", "faster", Tone.GOOD, 1.07, 1.02, 1.12, True),
            Track("h100", "2 runs", "", marks=[Mark("a", 1.06), Mark("b", 1.08)]),
            Track("micro batch 16", "OOM on mi300x", ""),
        ],
        0.05,
        NUMBERS,
    ),
    "waterfall": WaterfallPlot(
        "From h100 to mi300x",
        "",
        [
            Stage("h100", "9,000 tokens/s", "", 1.0, 1.0, tone=Tone.NOTE, is_total=True),
            Stage("batch", "+20.0%", "60% of the gap", 1.0, 1.2, 1.1, 1.3, Tone.GOOD),
            Stage("recompute", "-10.0%", "", 1.2, 1.08, 1.0, 900.0, Tone.BAD),
            Stage("mi300x", "+8.0%", "", 1.0, 1.08, tone=Tone.NOTE, is_total=True),
        ],
        NUMBERS,
        "tokens/s per GPU as a multiple of h100",
    ),
    "bars": Bars(
        "Throughput",
        "tokens/s per GPU",
        ["micro batch 4", "micro batch 16"],
        [
            BarGroup("h100", [Bar(9000.0, runs=[8900.0, 9100.0]), Bar(9500.0)]),
            BarGroup("mi300x", [Bar(8000.0), Bar(None, "OOM")], 1),
        ],
        [Level("peak", 10_000.0)],
    ),
    "hostile": Chart(
        HOSTILE,
        HOSTILE,
        "",
        NUMBERS,
        lines=[Line(HOSTILE, [1, 2], [1.0, 2.0])],
        dots=[Dot(1, 1.0, HOSTILE, kind=HOSTILE, named=True)],
        x_names=[HOSTILE, "b"],
        notes=[HOSTILE],
    ),
    "empty": Chart("Nothing", "", "", NUMBERS, lines=[Line("a", [1], [None])]),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", DRAWINGS)
def test_the_same_plot_gives_the_same_bytes_whatever_the_users_style(
    name: str, form: Form, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = draw(DRAWINGS[name], form)
    monkeypatch.setitem(mpl.rcParams, "lines.linewidth", 9)
    assert draw(DRAWINGS[name], form) == first
    assert MARK.encode() in first


def test_each_form_is_an_image_that_other_programs_open() -> None:
    chart = DRAWINGS["chart"]
    image = Image.open(io.BytesIO(draw(chart, "png")))
    assert image.width > 1000
    assert image.getextrema()[0] != (255, 255)
    assert "nats per token" in PdfReader(io.BytesIO(draw(chart, "pdf"))).pages[0].extract_text()
    assert ET.fromstring(draw(chart, "svg")).tag == "{http://www.w3.org/2000/svg}svg"


def test_hostile_text_is_drawn_as_it_is_written() -> None:
    text = PdfReader(io.BytesIO(draw(DRAWINGS["hostile"], "pdf"))).pages[0].extract_text()
    assert "$\\frac{1}$ \\input{/etc/passwd} <script>&\\u202e\\x07[U+4E2D] % #" in text.replace("\n", " ")
    names = {element.tag for element in ET.fromstring(draw(DRAWINGS["hostile"], "svg")).iter()}
    assert not {name for name in names if "script" in name or "image" in name}


def test_a_title_becomes_a_safe_part_of_a_file_name() -> None:
    assert figure_name("Throughput speedup") == "throughput-speedup"
    assert figure_name("../../etc/passwd") == "etc-passwd"
    assert figure_name("\u4e2d") == "figure"
    assert Path(figure_name(HOSTILE * 9)).name == figure_name(HOSTILE * 9)


def test_without_matplotlib_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InputError) as refused:
        draw(DRAWINGS["bars"], "svg")
    assert refused.value.next == "pip install 'steelyard[paper]'"
