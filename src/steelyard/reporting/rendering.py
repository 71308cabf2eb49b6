"""The files of a report, made from its page when they are asked for."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from steelyard.records.writer import numbered
from steelyard.reporting import Format, encoded
from steelyard.reporting.figures import MARK as FIGURE_MARK
from steelyard.reporting.figures import Form, draw, figure_name
from steelyard.reporting.page import Page

STEM = "report"


@dataclass(frozen=True, slots=True)
class Asked:
    """What to make of a report."""

    formats: Sequence[Format]
    figures: Sequence[Form] = ()
    """Forms in which each plot is a file of its own."""


@dataclass(frozen=True, slots=True)
class File:
    """A file of a report, made when it is asked for."""

    name: str
    mark: str
    content: Callable[[], bytes]


def rendered(page: Page, asked: Asked, stem: str = STEM) -> Iterator[File]:
    """The files of a report, without writing them."""
    for form in asked.formats:
        yield File(f"{stem}{form.SUFFIX}", form.MARK, partial(_encoded, form, page))
    taken: set[str] = set()
    for drawing in page.drawings if asked.figures else ():
        name = next(free for free in numbered(f"{stem}-{figure_name(drawing.title)}") if free not in taken)
        taken.add(name)
        for figure in asked.figures:
            yield File(f"{name}.{figure}", FIGURE_MARK, partial(draw, drawing, figure))


def _encoded(form: Format, page: Page) -> bytes:
    return encoded(form.render(page))
