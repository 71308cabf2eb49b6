r"""A paper as LaTeX, to be compiled alone or to be \input into a document; text from outside is inert."""

import re
import textwrap
from collections.abc import Iterator, Sequence

from steelyard import __version__
from steelyard.inert import inert
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

SUFFIX = ".tex"
MARK = "% steelyard report"
OF = "paper"
FIGURES = ("pdf",)

_HEAD = rf"""{MARK}
% Written by steelyard {__version__}. Compile it with pdflatex, or \input it into a document whose preamble has
%   \usepackage[T1]{{fontenc}} \usepackage{{textcomp,amsmath,booktabs,tabularx,graphicx}}
% Define these macros before \input to change where figures are, and the levels of headings:
%   \newcommand{{\steelyardfigures}}{{figures}} \newcommand{{\steelyardtitle}}{{\chapter}}
%   \newcommand{{\steelyardsection}}{{\section}} \newcommand{{\steelyardpart}}{{\subsection}}
"""
_PREAMBLE = r"""\providecommand{\steelyardfigures}{.}
\expandafter\ifx\csname @nodocument\endcsname\relax % inside a document
  \providecommand{\steelyardtitle}{\section}
  \providecommand{\steelyardsection}{\subsection}
  \providecommand{\steelyardpart}{\subsubsection}
  \def\steelyardabstract{\par}\def\endsteelyardabstract{\par}
  \def\steelyardend{}
\else
  \documentclass[10pt]{article}
  \usepackage[utf8]{inputenc}
  \usepackage[T1]{fontenc}
  \usepackage{textcomp,amsmath,booktabs,tabularx,graphicx}
  \usepackage{mathptmx,courier,microtype}
  \usepackage[a4paper,margin=2.5cm]{geometry}
  \renewcommand{\topfraction}{0.9}\renewcommand{\bottomfraction}{0.8}\renewcommand{\textfraction}{0.08}
  \renewcommand{\floatpagefraction}{0.85}\setcounter{totalnumber}{6}
  \newcommand{\steelyardtitle}[1]{\title{#1}\maketitle}
  \newcommand{\steelyardsection}{\section}
  \newcommand{\steelyardpart}{\subsection}
  \def\steelyardabstract{\begin{abstract}}\def\endsteelyardabstract{\end{abstract}}
"""
_BEGIN = r"""  \begin{document}
  \def\steelyardend{\end{document}}
\fi
\begingroup\emergencystretch=3em
"""
_END = r"""\endgroup
\steelyardend
"""
_MOST_ROWS = 40
"""Rows of a table that fit a page."""

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\char34{}",
    "`": r"\textasciigrave{}",
    "-": "-{}",
    ",": ",{}",
    "'": "'{}",
    "?": "?{}",
    "!": "!{}",
    "\N{MULTIPLICATION SIGN}": r"\ensuremath{\times}",
    "\N{PLUS-MINUS SIGN}": r"\ensuremath{\pm}",
    "\N{GREEK SMALL LETTER BETA}": r"\ensuremath{\beta}",
    "\N{MICRO SIGN}": r"\ensuremath{\mu}",
    "\N{MIDDLE DOT}": r"\textperiodcentered{}",
    "\N{DEGREE SIGN}": r"\textdegree{}",
    "\N{HORIZONTAL ELLIPSIS}": r"\ldots{}",
    "\N{EN DASH}": "--",
    "\N{EM DASH}": "---",
}
"""What is more than text to LaTeX, with an end after signs that would join to a ligature."""
_LETTERS = frozenset(map(chr, range(0xC0, 0x100))) - set("\u00d0\u00d7\u00de\u00f0\u00f7\u00fe")
"""Letters beyond ASCII that fonts of every encoding have."""
_LONG_WORD, _LONG_HEAD = 16, 20
_BREAKS = re.compile(r"(?<=[/.=,:;_{}&%#$~^<>|])|(?<=\w-)(?=\w)")


def render(paper: Paper) -> str:
    names = _Labels(paper)
    parts = [
        _HEAD,
        _PREAMBLE,
        f"  \\author{{{escaped(paper.made_by)}}}\n  \\date{{{escaped(paper.subject)}}}\n",
        _BEGIN,
        f"\\steelyardtitle{{{escaped(paper.title)}}}\n",
        f"\\begin{{center}}\\textbf{{{escaped(paper.banner)}}}\\end{{center}}\n" if paper.banner else "",
        "\\begin{steelyardabstract}\n", *_blocks(paper.abstract, names), "\\end{steelyardabstract}\n",
    ]  # fmt: skip
    for section in paper.sections[1:]:
        parts += [f"\n\\steelyardsection{{{escaped(section.title)}}}\n", *_blocks(section, names)]
    return "".join([*parts, _END])


class _Labels:
    """Labels and file names of one paper."""

    def __init__(self, paper: Paper) -> None:
        self.name, self.stem = paper.name, paper.stem

    def of(self, kind: str, label: str) -> str:
        return f"steelyard-{self.name}-{kind.lower()}-{label}"


def escaped(text: str) -> str:
    """Text that LaTeX sets as it is written; a character that its fonts may lack is shown by its number."""
    return "".join(map(_char, inert(text)))


def _breakable(text: str) -> str:
    """The same, with places to break long words, such as names of runs."""
    words = inert(text).split(" ")
    return " ".join(_broken(word) if len(word) > _LONG_WORD else escaped(word) for word in words)


def _broken(word: str) -> str:
    return r"\allowbreak{}".join(escaped(piece) for piece in _BREAKS.split(word))


def _char(char: str) -> str:
    if char in _SPECIAL:
        return _SPECIAL[char]
    if (char.isascii() and char.isprintable()) or char in _LETTERS:
        return char
    return f"\\texttt{{[U+{ord(char):04X}]}}"


def _code(text: str) -> str:
    """Keys, paths and commands, which may be broken after their signs."""
    return r"\texttt{" + _broken(inert(text)).replace("'{}", r"\textquotesingle{}") + "}"


def _prose(text: str) -> str:
    """A sentence with its keys and commands in a monospaced font."""
    parts = CODE.split(text)  # every other part is between backticks
    return "".join(_code(part) if at % 2 else _breakable(part) for at, part in enumerate(parts))


def _text(text: Text, labels: _Labels) -> str:
    parts = (
        f"{part.kind}~\\ref{{{labels.of(part.kind, part.label)}}}" if isinstance(part, Ref) else _prose(part)
        for part in text
    )
    return "".join(parts)


def _blocks(section: Section, labels: _Labels) -> Iterator[str]:
    for block in section.blocks:
        yield _block(block, labels)


def _block(block: Block, labels: _Labels) -> str:
    match block:
        case Paragraph(text=text):
            return f"{_text(text, labels)}\n\n"
        case Bullets(items=items):
            lines = "".join(f"  \\item {_prose(item)}\n" for item in items)
            return f"\\begin{{itemize}}\n{lines}\\end{{itemize}}\n\n" if lines else ""
        case Heading(title=title):
            return f"\\steelyardpart{{{escaped(title)}}}\n"
        case Equation():
            return _equation(block, labels)
        case PaperTable():
            return "".join(_tables(block, labels))
        case PaperFigure():
            return _figure(block, labels)
        case Listing(commands=commands):
            lines = "".join(f"\\hangindent=1.5em\\hangafter=1 {_code(command)}\\par\n" for command in commands)
            return f"\\begin{{flushleft}}\\small\n{lines}\\end{{flushleft}}\n"


def _equation(equation: Equation, labels: _Labels) -> str:
    above, below = (
        f"\\mathit{{{equation.quantity}}}_{{\\text{{{escaped(side)}}}}}" for side in (equation.above, equation.below)
    )
    label = labels.of("Equation", equation.label)
    return (
        f"\\begin{{equation}}\n  \\label{{{label}}}\n  \\mathit{{{equation.name}}} =\n"
        f"  \\frac{{{above}}}{{{below}}}\n\\end{{equation}}\n"
    )


def _tables(table: PaperTable, labels: _Labels) -> Iterator[str]:
    """One table, or several where it is longer than a page."""
    for first in range(0, max(len(table.rows), 1), _MOST_ROWS):
        rows = table.rows[first : first + _MOST_ROWS]
        caption = _breakable(f"{table.caption}{' (continued)' * bool(first)}")
        label = f"\\label{{{labels.of('Table', table.label)}}}" if not first else ""
        notes = table.notes if first + _MOST_ROWS >= len(table.rows) else ()
        lines = "".join(f"  {_prose(note)}\\par\n" for note in notes)
        yield (
            f"\\begin{{table}}[!htbp]\n  \\centering\\small\\setlength{{\\tabcolsep}}{{4pt}}\n"
            f"  \\setlength{{\\abovecaptionskip}}{{0pt}}\\setlength{{\\belowcaptionskip}}{{5pt}}\n"
            f"  \\caption{{{caption}}}{label}\n{_tabular(table, rows)}"
            f"  \\par\\smallskip\\raggedright\\footnotesize\n{lines}\\end{{table}}\n\n"
        )


def _tabular(table: PaperTable, rows: Sequence[Sequence[str]]) -> str:
    columns = "".join(_column(table, at) for at in range(len(table.columns)))
    begin, end = f"\\begin{{tabular}}{{{columns}}}", "\\end{tabular}"
    if table.words:
        begin, end = f"\\begin{{tabularx}}{{\\linewidth}}{{{columns}}}", "\\end{tabularx}"
    head = " & ".join(_head(name, wraps=at in table.words) for at, name in enumerate(table.columns))
    lines = "".join(f"    {' & '.join(map(_prose, row))} \\\\\n" for row in rows)
    return f"  {begin}\n    \\toprule\n    {head} \\\\\n    \\midrule\n{lines}    \\bottomrule\n  {end}\n"


def _head(name: str, wraps: bool) -> str:
    """The name of a column; a long one is in several lines."""
    lines = [name] if wraps else textwrap.wrap(inert(name), _LONG_HEAD)
    if len(lines) < 2:
        return _prose(name)
    broken = r" \\ ".join(map(escaped, lines))
    return f"\\begin{{tabular}}[b]{{@{{}}r@{{}}}}{broken}\\end{{tabular}}"


def _column(table: PaperTable, at: int) -> str:
    if at in table.words:
        return ">{\\raggedright\\arraybackslash}X"
    return "r" if at and table.is_figure(at) else "l"


def _figure(figure: PaperFigure, labels: _Labels) -> str:
    label = labels.of("Figure", figure.label)
    return (
        "\\begin{figure}[!htbp]\n  \\centering\n"
        f"  \\includegraphics[width=0.88\\linewidth]{{\\steelyardfigures/{labels.stem}-{figure.label}.pdf}}\n"
        f"  \\caption{{{_breakable(figure.caption)}}}\\label{{{label}}}\n\\end{{figure}}\n\n"
    )
