"""The same page as Markdown, for a ticket or a pull request; text from logs and configs inert."""

import re
from collections.abc import Sequence
from html import escape
from typing import Any

from steelyard.inert import inert
from steelyard.reporting.page import CODE, Block, Cell, Chart, Page, Panel, Points, Table, Tile

SUFFIX = ".md"
MARK = "<!-- steelyard report -->"

_SPECIAL = re.compile(
    r"[\\`*_\[\]<#!|~&@$]|^>|:(?=//|[\w+-]*[a-z][\w+-]*:)|(?<=www)\."
    r"|^[-+=](?=\s|[-+=])|(?<=^\d)[.)](?=\s)|(?<=^\d\d)[.)](?=\s)",
    re.IGNORECASE,
)
"""What may start markup, a list, a link, a mention, a picture or mathematics."""


def render(page: Page) -> str:
    """Headings, lists, tables and fenced commands; every word from outside is escaped."""
    parts = [
        MARK,
        f"> **{text(page.banner)}**" if page.banner else "",
        f"# {text(page.title)}",
        f"**{text(page.verdict.upper())}**: {text(page.sentence)}",
        *(f"**{text(part.about)}: {text(part.word)}.** {text(part.sentence)}" for part in page.answers),
        _bullets(page.reasons),
        "\n".join(_tile(tile) for tile in page.tiles),
        *(_block(block) for block in page.before),
        *(_chart(chart) for chart in page.charts),
        *(_block(block) for block in page.tables),
        "## To reproduce it\n\n" + "\n\n".join(_fenced(command) for command in page.commands),
        f"Made by {text(page.made_by)}.",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def text(value: Any) -> str:
    """Text that Markdown shows as it is: one line, its own marks escaped, nothing a renderer would link or run."""
    line = " ".join("".join(char if char.isprintable() else " " for char in str(value)).split())
    parts = CODE.split(line)  # what stands between backticks is every other part
    return "".join(f"`{part}`" if at % 2 else _SPECIAL.sub(r"\\\g<0>", part) for at, part in enumerate(parts))


def _bullets(lines: Sequence[str]) -> str:
    return "\n".join(f"- {text(line)}" for line in lines)


def _tile(tile: Tile) -> str:
    value = f"{text(tile.value)} {text(tile.unit)}".rstrip()
    return f"- {text(tile.name)}: **{value}**{'; ' if tile.note else ''}{text(tile.note)}"


def _block(block: Block) -> str:
    match block:
        case Panel():
            return _panel(block)
        case Points():
            return _points(block)
        case Table():
            return _table(block)


def _panel(panel: Panel) -> str:
    """The plots' summaries and numbers; the plots themselves are in the HTML."""
    plots = (f"### {text(plot.title)}\n\n{text(plot.summary)}\n\n{_rows(plot.samples)}" for plot in panel.plots)
    return "\n\n".join([f"## {text(panel.title)}", text(panel.note), *plots])


def _points(points: Points) -> str:
    lines = []
    for point in points.points:
        lines += [f"- {text(point.text)}", *(f"  - {text(line)}" for line in point.beneath)]
    return "\n\n".join(part for part in (f"## {text(points.title)}", text(points.note), "\n".join(lines)) if part)


def _chart(chart: Chart) -> str:
    """The plot's summary and values; the curve itself is in the HTML."""
    return (
        f"## {text(chart.title)}, {text(chart.unit)}\n\n{text(chart.summary)}\n\n{_levels(chart)}{_rows(chart.samples)}"
    )


def _levels(chart: Chart) -> str:
    lines = [f"{level.label} {level.value:.4f}" for level in chart.levels]
    lines += [f"{band.label} {band.first:,} to {band.last:,}" for band in chart.bands]
    return f"{_bullets(lines)}\n\n" if lines else ""


def _table(table: Table) -> str:
    note = f"{text(table.note)}\n\n" if table.note else ""
    content = f"{note}{_rows(table)}".rstrip()
    if table.folded and content:
        return f"<details><summary>{escape(inert(table.title))}</summary>\n\n{content}\n\n</details>"
    return f"## {text(table.title)}\n\n{content}".rstrip()


def _rows(table: Table) -> str:
    if not table.rows:
        return ""
    head = f"| {' | '.join(text(name) for name in table.columns)} |\n|{' --- |' * len(table.columns)}"
    rows = [" | ".join(_cell(cell) for cell in row) for row in table.rows]
    return "\n".join([head, *(f"| {row} |" for row in rows)])


def _cell(cell: str | Cell) -> str:
    if not isinstance(cell, Cell):
        return text(cell)
    return f"[{text(cell.text)}](<{cell.href}>)" if cell.href else text(cell.text)


def _fenced(command: str) -> str:
    """A fence longer than any run of backticks in the command, which keeps its lines."""
    lines = "\n".join(
        "".join(char if char.isprintable() else "\ufffd" for char in line) for line in command.splitlines()
    )
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", lines)), default=0))
    return f"{fence}sh\n{lines}\n{fence}"
