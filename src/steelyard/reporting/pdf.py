"""A paper as PDF, set by typst without a TeX system. Text from outside is data, never markup."""

import json
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from steelyard.errors import NotInstalledError
from steelyard.inert import inert
from steelyard.reporting.figures import INSTALL, draw
from steelyard.reporting.page import CODE
from steelyard.reporting.paper import (
    Block,
    Bullets,
    Equation,
    Heading,
    Listing,
    Paper,
    PaperFigure,
    PaperTable,
    Paragraph,
    Ref,
    Section,
    Text,
)

SUFFIX = ".pdf"
MARK = "steelyard-report-paper"
"""The keyword in its metadata."""
OF = "paper"
FIGURES = ()
_CYRILLIC_END, _SIGNS_END = 0x0500, 0x2300
_TEMPLATE, _DATA = "paper.typ", "data.json"


def render(paper: Paper) -> bytes:
    """The same paper gives the same bytes; where it needs fonts of the system, on machines with the same fonts."""
    try:
        import typst
    except ImportError:
        complaint, expected = "typst is not installed, and PDFs are set with it", "steelyard[paper]"
        raise NotInstalledError(complaint, key="--to", value="pdf", expected=expected, next=INSTALL) from None
    template = resources.files("steelyard.reporting").joinpath("templates", _TEMPLATE)
    with TemporaryDirectory() as folder:
        place = Path(folder)
        place.joinpath(_TEMPLATE).write_bytes(template.read_bytes())
        data = json.dumps(_document(paper), ensure_ascii=False)
        place.joinpath(_DATA).write_text(data, encoding="utf-8")
        for figure in paper.figures:
            place.joinpath(_file(figure)).write_bytes(draw(figure.drawing, "pdf"))
        covered = _is_covered(data)
        content = typst.compile(place / _TEMPLATE, root=place, ignore_system_fonts=covered, format="pdf", timestamp=0)
    assert isinstance(content, bytes)
    return content


def _is_covered(text: str) -> bool:
    """Whether typst's own fonts have all characters: Latin, Greek, Cyrillic, punctuation and signs."""
    return all(ord(char) < _CYRILLIC_END or 0x2000 <= ord(char) < _SIGNS_END for char in text)


def _file(figure: PaperFigure) -> str:
    return f"{figure.label}.pdf"


def _document(paper: Paper) -> dict[str, Any]:
    return {
        "mark": MARK,
        **{name: inert(getattr(paper, name)) for name in ("title", "subject", "banner", "made_by")},
        "abstract": list(map(_block, paper.abstract.blocks)),
        "sections": [_section(section) for section in paper.sections[1:]],
    }


def _section(section: Section) -> dict[str, Any]:
    return {"title": inert(section.title), "blocks": list(map(_block, section.blocks))}


def _label(kind: str, label: str) -> str:
    return f"{kind.lower()}-{label}"


def _prose(text: str) -> list[dict[str, str]]:
    """The parts of a sentence: text, and keys and commands."""
    parts = CODE.split(inert(text))  # every other part is between backticks
    return [{"code" if at % 2 else "text": part} for at, part in enumerate(parts)]


def _text(text: Text) -> list[dict[str, str]]:
    parts: list[dict[str, str]] = []
    for part in text:
        parts += [{"ref": _label(part.kind, part.label)}] if isinstance(part, Ref) else _prose(part)
    return parts


def _block(block: Block) -> Mapping[str, Any]:
    match block:
        case Paragraph(text=text):
            return {"kind": "paragraph", "text": _text(text)}
        case Bullets(items=items):
            return {"kind": "bullets", "items": list(map(_prose, items))}
        case Heading(title=title):
            return {"kind": "heading", "title": inert(title)}
        case Equation():
            names = {name: inert(getattr(block, name)) for name in ("name", "quantity", "above", "below")}
            return {"kind": "equation", "label": _label("Equation", block.label), **names}
        case PaperTable():
            return _table(block)
        case PaperFigure():
            label = _label("Figure", block.label)
            return {"kind": "figure", "label": label, "caption": inert(block.caption), "file": _file(block)}
        case Listing(commands=commands):
            return {"kind": "listing", "commands": list(map(inert, commands))}


def _table(table: PaperTable) -> dict[str, Any]:
    columns = range(len(table.columns))
    return {
        "kind": "table",
        "label": _label("Table", table.label),
        "caption": inert(table.caption),
        "columns": list(map(_prose, table.columns)),
        "rows": [{"parts": _prose(cell)} for row in table.rows for cell in row],
        "notes": list(map(_prose, table.notes)),
        "widths": [at in table.words for at in columns],
        "aligned": ["right" if at and table.is_figure(at) else "left" for at in columns],
    }
