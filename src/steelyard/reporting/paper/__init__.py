"""The content of a paper, independent of its format: LaTeX and PDF render the same sections."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from steelyard import __version__
from steelyard.reporting.figures import Drawing, figure_name


@dataclass(frozen=True, slots=True)
class Ref:
    """A reference to a table, a figure or an equation of the paper."""

    kind: Literal["Table", "Figure", "Equation"]
    label: str


Text = Sequence[str | Ref]


def listed_refs(refs: Sequence[Ref]) -> list[str | Ref]:
    """`Figure 1, Figure 2 and Figure 3`."""
    parts: list[str | Ref] = []
    for at, ref in enumerate(refs):
        parts += [", " if 0 < at < len(refs) - 1 else " and " if at else "", ref]
    return parts


@dataclass(frozen=True, slots=True)
class Paragraph:
    text: Text


@dataclass(frozen=True, slots=True)
class Bullets:
    items: Sequence[str]


@dataclass(frozen=True, slots=True)
class Heading:
    """Of a part of a section."""

    title: str


@dataclass(frozen=True, slots=True)
class Equation:
    """`name` is the quotient of one quantity of two sides."""

    label: str
    name: str
    quantity: str
    above: str
    below: str
    """The sides."""


@dataclass(frozen=True, slots=True)
class PaperTable:
    label: str
    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()
    """Below the table."""
    words: Sequence[int] = ()
    """Columns with text that wraps; the others are figures or short words."""

    def is_figure(self, at: int) -> bool:
        """Whether a column has figures, which are aligned on the right."""
        return at not in self.words and any(row[at][:1].isdigit() for row in self.rows)


@dataclass(frozen=True, slots=True)
class PaperFigure:
    caption: str
    drawing: Drawing

    @property
    def label(self) -> str:
        """Also the end of its file's name."""
        return figure_name(self.drawing.title)


@dataclass(frozen=True, slots=True)
class Listing:
    """Commands, one per entry."""

    commands: Sequence[str]


Block = Paragraph | Bullets | Heading | Equation | PaperTable | PaperFigure | Listing


@dataclass(frozen=True, slots=True)
class Section:
    key: str
    """Its name in a file of texts."""
    title: str
    blocks: Sequence[Block]


ABSTRACT = "abstract"


@dataclass(frozen=True, slots=True)
class Paper:
    name: str
    """Distinguishes its labels from those of other papers in one document."""
    title: str
    subject: str
    """What was trained on what, in one line."""
    sections: Sequence[Section]
    """The abstract first."""
    banner: str = ""
    """What the user declared, above everything else."""
    stem: str = "report"
    """How the names of its figures' files begin."""
    made_by: str = f"Made by steelyard {__version__} from the records of the runs"

    @property
    def abstract(self) -> Section:
        return self.sections[0]

    @property
    def figures(self) -> list[PaperFigure]:
        blocks = (block for section in self.sections for block in section.blocks)
        return [block for block in blocks if isinstance(block, PaperFigure)]
