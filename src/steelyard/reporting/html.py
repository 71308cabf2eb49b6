"""A page as one self-contained HTML file. Text from logs and configs cannot act in it."""

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import fields
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from steelyard.inert import inert, inert_lines
from steelyard.reporting import interval_marks, waterfall_marks, write_report
from steelyard.reporting.page import CODE, Chart, Page, Plots

SUFFIX = ".html"
OF = "page"
FIGURES = ()
SCRIPTS = ("axes.js", "labels.js", "plot.js", "page.js")
"""One script, in this order."""
MARK = '<meta name="generator" content="steelyard">'


def render(page: Page) -> str:
    """The page as HTML. A content security policy allows only the two inlined texts below."""
    style, script = _asset("page.css"), "".join(map(_asset, SCRIPTS))
    environment = Environment(
        loader=PackageLoader("steelyard.reporting"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        finalize=_inert,
    )
    environment.filters["prose"] = _prose
    policy = f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; base-uri 'none'"
    charts = [chart for block in page.blocks if isinstance(block, Plots) for chart in block.charts]
    own = {"mark": MARK, "style": style, "script": script, "data": _data(charts)}  # everything else is escaped
    unescaped = {name: Markup(text) for name, text in own.items()}
    numbers = {id(chart): at for at, chart in enumerate(charts)}
    names = {
        "drawn": interval_marks.drawn,
        "fallen": waterfall_marks.drawn,
        "numbered": lambda chart: numbers[id(chart)],
    }
    return environment.get_template("page.html").render(page=page, policy=policy, **names, **unescaped)


def write(path: Path, page: Page) -> None:
    write_report(path, render(page), MARK, "--html")


def _inert(value: Any) -> Any:
    """Every text that the template shows."""
    return inert_lines(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _prose(text: str) -> Markup:
    """A sentence with its keys and commands in a monospaced font."""
    parts = CODE.split(inert_lines(text))  # every other part is between backticks
    return Markup("").join(Markup("<code>{}</code>").format(part) if at % 2 else part for at, part in enumerate(parts))


def _asset(name: str) -> str:
    return resources.files("steelyard.reporting").joinpath("templates", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _data(charts: Sequence[Chart]) -> str:
    """The curves as JSON that cannot end its own script element."""
    text = json.dumps([_chart(chart) for chart in charts], allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _chart(chart: Chart) -> dict[str, Any]:
    parts = {
        name: [{field.name: getattr(part, field.name) for field in fields(part)} for part in getattr(chart, name)]
        for name in ("lines", "levels", "spreads", "bands", "zones", "dots")
    }
    names, notes = list(map(inert, chart.x_names)), list(map(inert, chart.notes))
    return {"title": chart.title, "x": chart.x_name, "names": names, "settled": chart.settled, "notes": notes, **parts}
