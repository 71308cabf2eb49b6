"""The same page as Markdown, for a ticket or a pull request; text from logs and configs inert."""

import re
from collections.abc import Mapping, Sequence
from html import escape
from textwrap import indent
from typing import Any
from urllib.parse import quote

from steelyard.inert import inert
from steelyard.reporting.page import (
    CODE,
    Answer,
    Block,
    Cell,
    Chart,
    Excerpt,
    Group,
    IntervalPlot,
    Page,
    Panel,
    Plots,
    Point,
    Points,
    Table,
    Tile,
    Tiles,
    WaterfallPlot,
)

SUFFIX = ".md"
OF = "page"
FIGURES = ()
MARK = "<!-- steelyard report -->"

_SPECIAL = re.compile(
    r"[\\`*_\[\]<#!|~&@$]|^>|:(?=//|[\w+-]*[a-z][\w+-]*:)|(?<=www)\."
    r"|^[-+=](?=\s|[-+=])|(?<=^\d)[.)](?=\s)|(?<=^\d\d)[.)](?=\s)",
    re.IGNORECASE,
)
"""What may start markup, a list, a link, a mention, a picture or mathematics."""


def render(page: Page) -> str:
    """Headings, lists, tables and fenced commands; all text from outside is escaped."""
    images = {id(drawing): image for drawing, image in zip(page.drawings, page.images, strict=False)}
    parts = [
        MARK,
        f"> **{text(page.banner)}**" if page.banner else "",
        f"# {text(page.title)}",
        text(page.subject),
        "\n\n".join(f"**{text(answer.word.upper())}**: {text(answer.text)}" for answer in _answers(page)),
        _points(Points("", [Point("Evidence", page.evidence)])) if page.evidence else "",
        _points(page.problem) if page.problem else "",
        _points(page.causes) if page.causes else "",
        _bullets(page.reasons),
        _rows(page.summary) if page.summary else "",
        *(_block(block, images) for block in page.blocks),
        "## Commands\n\n" + "\n\n".join(_fenced(command) for command in page.commands),
        f"Made by {text(page.made_by)}.",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _answers(page: Page) -> Sequence[Answer]:
    return page.answers or [Answer(page.verdict, page.tone, page.sentence)]


def text(value: Any) -> str:
    """Text as one line with its marks escaped, so that a renderer neither links nor runs anything."""
    line = " ".join("".join(char if char.isprintable() else " " for char in str(value)).split())
    parts = CODE.split(line)  # every other part is between backticks
    return "".join(f"`{part}`" if at % 2 else _SPECIAL.sub(r"\\\g<0>", part) for at, part in enumerate(parts))


def _bullets(lines: Sequence[str]) -> str:
    return "\n".join(f"- {text(line)}" for line in lines)


def _tile(tile: Tile) -> str:
    value = f"{text(tile.value)} {text(tile.unit)}".rstrip()
    return f"- {text(tile.name)}: **{value}**{'; ' if tile.note else ''}{text(tile.note)}"


def _block(block: Block, images: Mapping[int, str]) -> str:
    match block:
        case Panel():
            content = _panel(block, images)
            return _folded(block.title, content) if block.folded else f"## {text(block.title)}\n\n{content}"
        case Tiles():
            return "\n".join(map(_tile, block.tiles))
        case Group():
            tables = (_table(table, "###") for table in block.tables)
            return "\n\n".join(part for part in (f"## {text(block.title)}", text(block.note), *tables) if part)
        case Plots():
            return "\n\n".join(_chart(chart, images) for chart in block.charts)
        case Points():
            return _points(block)
        case Table():
            return _table(block)


def _panel(panel: Panel, images: Mapping[int, str]) -> str:
    """Summaries and numbers, with the plots if they are files."""
    parts = [text(panel.note)]
    for plot in panel.plots:
        parts += [f"### {text(plot.title)}", text(plot.summary), _image(plot, images), _rows(plot.samples)]
    return "\n\n".join(part for part in parts if part)


def _image(drawing: Chart | IntervalPlot | WaterfallPlot, images: Mapping[int, str]) -> str:
    """A link to the file of a plot, with what it shows as its alternative text; empty without a file."""
    if (image := images.get(id(drawing))) is None:
        return ""
    match drawing:
        case IntervalPlot():
            names = [track.label for track in drawing.tracks]
        case WaterfallPlot():
            names = [stage.label for stage in drawing.stages]
        case Chart():
            names = _curves(drawing)
    return f"![{text(drawing.title)}: {text(', '.join(names))}](<{quote(image)}>)"


def _points(points: Points) -> str:
    lines = []
    for point in points.points:
        lines += [f"- {text(point.text)}", *(f"  - {text(line)}" for line in point.beneath)]
        if point.commands:
            lines += ["", indent(_fenced("\n".join(point.commands)), "  "), ""]
    content = "\n\n".join(part for part in (text(points.note), "\n".join(lines).rstrip()) if part)
    title = f"## {text(points.title)}\n\n" if points.title else ""
    return _folded(points.title, content) if points.folded else f"{title}{content}"


def _chart(chart: Chart, images: Mapping[int, str]) -> str:
    """The summary and values of a plot, with its curves if they are a file."""
    title = f"{chart.title}, {chart.unit}" if chart.unit else chart.title
    lines = [f"{level.label} {level.value:.4f}" for level in chart.levels]
    lines += [f"{band.label} {band.first:,} to {band.last:,}" for band in chart.bands]
    parts = (f"## {text(title)}", text(chart.summary), _image(chart, images), _bullets(lines), _rows(chart.samples))
    return "\n\n".join(part for part in parts if part)


def _curves(chart: Chart) -> list[str]:
    """What a plot draws: its curves and its levels."""
    return [line.label for line in chart.lines] + [level.label for level in chart.levels]


def _table(table: Table, heading: str = "##") -> str:
    note = f"{text(table.note)}\n\n" if table.note else ""
    lines = "" if table.folded else "\n\n".join(map(_excerpt, _excerpts(table)))
    content = "\n\n".join(part for part in (f"{note}{_rows(table)}", lines) if part).rstrip()
    if table.folded and content:
        return _folded(table.title, content)
    return f"{heading} {text(table.title)}\n\n{content}".rstrip()


def _folded(title: str, content: str) -> str:
    return f"<details><summary>{escape(inert(title))}</summary>\n\n{content}\n\n</details>"


def _excerpts(table: Table) -> list[Excerpt]:
    cells = (cell for row in table.rows for cell in row if isinstance(cell, Cell))
    return [cell.excerpt for cell in cells if cell.excerpt and cell.excerpt.lines]


def _excerpt(excerpt: Excerpt) -> str:
    """The log lines of the evidence."""
    return f"{text(excerpt.place)}:\n\n" + _fenced(
        "\n".join(f"{line.number} {line.text}" for line in excerpt.lines), "text"
    )


def _rows(table: Table) -> str:
    if not table.rows:
        return ""
    head = f"| {' | '.join(text(name) for name in table.columns)} |\n|{' --- |' * len(table.columns)}"
    rows = [" | ".join(_cell(cell) for cell in row) for row in table.rows]
    return "\n".join([head, *(f"| {row} |" for row in rows)])


def _cell(cell: str | Cell) -> str:
    if not isinstance(cell, Cell):
        return text(cell)
    words = f"[{text(cell.text)}](<{cell.href}>)" if cell.href else text(cell.text)
    remarks = [cell.note, *([cell.excerpt.note, cell.excerpt.place] if cell.excerpt else [])]
    return " ".join([words, *(f"({text(remark)})" for remark in remarks if remark)])


def _fenced(command: str, language: str = "sh") -> str:
    """In a fence longer than any run of backticks in it."""
    lines = "\n".join(
        "".join(char if char.isprintable() else "\ufffd" for char in line) for line in command.splitlines()
    )
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", lines)), default=0))
    return f"{fence}{language}\n{lines}\n{fence}"
