"""The files of a report, made when they are asked for."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path

from steelyard.errors import InputError
from steelyard.records.writer import numbered
from steelyard.reporting import Format, encoded
from steelyard.reporting.figures import INLINE, Drawing, Form, draw, figure_name
from steelyard.reporting.figures import MARK as FIGURE_MARK
from steelyard.reporting.page import Page
from steelyard.reporting.paper import Paper
from steelyard.reporting.paper.cells import Cells
from steelyard.reporting.paper.comparison import comparison_paper
from steelyard.reporting.paper.comparison import values_of as values_of_cells
from steelyard.reporting.paper.methods import with_records
from steelyard.reporting.paper.run import JudgedCells, run_paper
from steelyard.reporting.paper.run import values_of as values_of_judged
from steelyard.reporting.paper.texts import with_texts
from steelyard.reporting.rows import Rows, comparison_rows, run_rows

STEM = "report"


@dataclass(frozen=True, slots=True)
class Asked:
    """What to make of a report."""

    formats: Sequence[Format]
    figures: Sequence[Form] = ()
    """Forms in which each plot is a file of its own."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """The user's texts for the sections of papers, by key."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a report is made from."""

    directory: Path
    page: Page
    source: Callable[[], Cells | JudgedCells] | None = None
    """Reads what papers and tables of figures are about; None if a report has neither."""
    records: str = ""
    """The digest of all records that it is made from."""


@dataclass(frozen=True, slots=True)
class File:
    """A file of a report, made when it is asked for."""

    name: str
    mark: str
    content: Callable[[], bytes]


def rendered(report: Report, asked: Asked, stem: str = STEM) -> Iterator[File]:
    """The files of a report, without writing them."""
    parts = _Parts(report, asked, stem)
    for form in asked.formats:
        yield File(f"{stem}{form.SUFFIX}", form.MARK, partial(_rendered, form, parts.named(form.OF)))
    forms = dict.fromkeys(asked.figures)
    of_papers = dict.fromkeys(form for each in asked.formats for form in each.FIGURES if form not in forms)
    drawn = [(parts.drawings, forms)] if forms else []
    drawn += [(parts.paper_drawings, of_papers)] if of_papers else []
    for drawings, figures in drawn:
        for name, drawing in drawings.items():
            for figure in figures:
                yield File(f"{parts.figure_stem}-{name}.{figure}", FIGURE_MARK, partial(draw, drawing, figure))


def _rendered(form: Format, part: Page | Paper | Rows) -> bytes:
    content = form.render(part)
    return encoded(content) if isinstance(content, str) else content


class _Parts:
    """The parts of a report, each made once."""

    def __init__(self, report: Report, asked: Asked, stem: str) -> None:
        self.report, self.texts, self.figures = report, asked.texts, asked.figures
        self.figure_stem = "".join(char if char.isalnum() and char.isascii() else "-" for char in stem)

    def named(self, name: str) -> Page | Paper | Rows:
        match name:
            case "paper":
                return self.paper
            case "rows":
                return comparison_rows(self.source) if isinstance(self.source, Cells) else run_rows(self.source)
        return self.page

    @cached_property
    def page(self) -> Page:
        """With links to its images, if they are files in a form that a page can show."""
        shown = next((form for form in self.figures if form in INLINE), None)
        images = [f"{self.figure_stem}-{name}.{shown}" for name in self.page_drawings] if shown else []
        return replace(self.report.page, images=images)

    @cached_property
    def source(self) -> Cells | JudgedCells:
        if self.report.source is None:
            kind = self.report.page.kind
            complaint, expected = f"a {kind} has a page only", "html or md"
            raise InputError(f"--to: {complaint}", key="--to", value=kind, expected=expected, next="--to html,md")
        return self.report.source()

    @cached_property
    def paper(self) -> Paper:
        made = self.source
        if isinstance(made, Cells):
            paper, values = comparison_paper(made), values_of_cells(made)
        else:
            paper, values = run_paper(made), values_of_judged(made)
        paper = replace(with_texts(paper, self.texts, values), stem=self.figure_stem)
        return with_records(paper, self.report.records) if self.report.records else paper

    @cached_property
    def paper_drawings(self) -> dict[str, Drawing]:
        return {figure.label: figure.drawing for figure in self.paper.figures}

    @cached_property
    def page_drawings(self) -> dict[str, Drawing]:
        named: dict[str, Drawing] = {}
        for drawing in self.report.page.drawings:
            name = next(free for free in numbered(figure_name(drawing.title)) if free not in named)
            named[name] = drawing
        return named

    @cached_property
    def drawings(self) -> dict[str, Drawing]:
        """The plots of the page and of the paper, by name; a plot that both have is drawn once."""
        return self.page_drawings | (self.paper_drawings if self.report.source is not None else {})
