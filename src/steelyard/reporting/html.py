"""One self-contained HTML file: no network, no dependency, text from logs and configs inert."""

import base64
import hashlib
import json
from dataclasses import fields
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from steelyard.inert import inert_lines
from steelyard.reporting import write_report
from steelyard.reporting.interval_marks import drawn
from steelyard.reporting.page import CODE, Chart, Page

SUFFIX = ".html"
MARK = '<meta name="generator" content="steelyard">'


def render(page: Page) -> str:
    """The page as HTML. A content security policy lets only the two inlined texts below take effect."""
    style, script = _asset("page.css"), _asset("chart.js")
    environment = Environment(
        loader=PackageLoader("steelyard.reporting"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        finalize=_inert,
    )
    environment.filters["prose"] = _prose
    policy = f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; base-uri 'none'"
    own = {"mark": MARK, "style": style, "script": script, "data": _data(page)}  # all else is escaped
    unescaped = {name: Markup(text) for name, text in own.items()}
    return environment.get_template("page.html").render(page=page, drawn=drawn, policy=policy, **unescaped)


def write(path: Path, page: Page) -> None:
    write_report(path, render(page), MARK, "--html")


def _inert(value: Any) -> Any:
    """Whatever a template shows that is not of our own making."""
    return inert_lines(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _prose(text: str) -> Markup:
    """A sentence whose keys and commands are set as such."""
    parts = CODE.split(inert_lines(text))  # what stands between backticks is every other part
    return Markup("").join(Markup("<code>{}</code>").format(part) if at % 2 else part for at, part in enumerate(parts))


def _asset(name: str) -> str:
    return resources.files("steelyard.reporting").joinpath("templates", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _data(page: Page) -> str:
    """The curves as JSON that cannot end its own script element."""
    text = json.dumps([_chart(chart) for chart in page.charts], allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _chart(chart: Chart) -> dict[str, Any]:
    parts = {
        name: [{field.name: getattr(part, field.name) for field in fields(part)} for part in getattr(chart, name)]
        for name in ("lines", "levels", "spreads", "bands")
    }
    return {"title": chart.title, "unit": chart.unit, "x": chart.x_name, **parts}
