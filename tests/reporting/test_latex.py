"""Papers as LaTeX: compiled by pdflatex alone and inside a document, whatever text is in them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from steelyard.reporting import latex
from steelyard.reporting.bars import Bar, BarGroup, Bars
from steelyard.reporting.figures import draw
from steelyard.reporting.paper import (
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
)

HOSTILE = (
    "\\input{/etc/passwd} $x_{1}$ %comment #1 a&b ^^41 ~ {} [] <e> |p| \"q\" `c` 'd' --to ,, ?` !` -- "
    "\\end{document} \u4e2d \u202e \x07 \x1b[31m \u00e9 \u2713 \U0001f600 \\write18{touch owned} $$ \\\\ \u00d7 \u00b1"
)
SHOWN = '\\input{/etc/passwd} $x_{1}$ %comment #1 a&b ^^41 ~ {} [] <e> |p| "q"'


def hostile_paper() -> Paper:
    chart = Bars(HOSTILE, HOSTILE, [HOSTILE], [BarGroup(HOSTILE, [Bar(1.0)])])
    parts = [
        Heading(HOSTILE),
        Paragraph(
            [HOSTILE, Ref("Table", "t"), ", ", Ref("Figure", PaperFigure("", chart).label), Ref("Equation", "e")]
        ),
        Bullets([HOSTILE, f"`{'key.of_a_setting'}` {HOSTILE}"]),
        Equation("e", "Ratio", "Quantity", HOSTILE[:40], HOSTILE[:40]),
        PaperTable("t", HOSTILE, [HOSTILE, "b"], [[HOSTILE, "1"], ["=1+1", HOSTILE]], [HOSTILE], words=(0, 1)),
        PaperFigure(HOSTILE, chart),
        Listing([f"steelyard run {HOSTILE}", "steelyard compare " + "runs/a/very/long/path," * 20]),
    ]
    sections = [Section("abstract", "Abstract", [Paragraph([HOSTILE])]), Section("results", HOSTILE, parts)]
    return Paper("hostile", HOSTILE, HOSTILE, sections, banner=HOSTILE, made_by=HOSTILE)


def write(paper: Paper, folder: Path) -> Path:
    """The files of a paper, as `report` writes them."""
    folder.mkdir(exist_ok=True)
    for figure in paper.figures:
        (folder / f"{paper.stem}-{figure.label}.pdf").write_bytes(draw(figure.drawing, "pdf"))
    (folder / "report.tex").write_text(latex.render(paper))
    return folder / "report.tex"


def document(preamble: str, body: str, kind: str = "article") -> str:
    packages = r"\usepackage[T1]{fontenc}\usepackage{textcomp,amsmath,booktabs,tabularx,graphicx}"
    return f"\\documentclass{{{kind}}}\n{packages}\n{preamble}\n\\begin{{document}}\n{body}\n\\end{{document}}\n"


def test_no_sign_of_a_text_is_read_by_latex() -> None:
    assert latex.escaped("a_b%c$d#e&f{g}\\h^i~j") == (
        r"a\_b\%c\$d\#e\&f\{g\}\textbackslash{}h\textasciicircum{}i\textasciitilde{}j"
    )
    assert latex.escaped("--to \u4e2d \x1b") == r"-{}-{}to \texttt{[U+4E2D]} \textbackslash{}x1b"
    assert latex.escaped("\u00e9 \u00d7 \u00f0") == r"é \ensuremath{\times} \texttt{[U+00F0]}"


def test_the_same_paper_is_the_same_text() -> None:
    assert latex.render(hostile_paper()) == latex.render(hostile_paper())
    assert latex.render(hostile_paper()).startswith(latex.MARK)


@pytest.mark.tex
def test_hostile_text_is_set_as_it_is_written(compiled: Any, tmp_path: Path) -> None:
    path = write(hostile_paper(), tmp_path)
    text = compiled(path).replace("\n", " ")
    assert SHOWN.replace(" ", "") in text.replace(" ", "")
    assert "root:" not in text
    assert "[U+4E2D]" in text
    assert not (tmp_path / "owned").exists()


@pytest.mark.tex
@pytest.mark.parametrize("kind", ["article", "report"])
def test_a_paper_is_part_of_a_document(compiled: Any, tmp_path: Path, kind: str) -> None:
    write(hostile_paper(), tmp_path / "papers")
    write(replace(hostile_paper(), name="other"), tmp_path / "others")
    macros = r"\newcommand{\steelyardfigures}{papers}"
    body = "Before.\n\\input{papers/report}\n\\input{others/report}\nAfter."
    path = tmp_path / "mine.tex"
    path.write_text(document(macros, body, kind))
    text = compiled(path)
    assert "Before." in text
    assert "After." in text


@pytest.mark.tex
def test_levels_of_headings_can_be_set(compiled: Any, tmp_path: Path) -> None:
    write(hostile_paper(), tmp_path)
    macros = r"\newcommand{\steelyardtitle}{\chapter}\newcommand{\steelyardsection}{\section}"
    path = tmp_path / "book.tex"
    path.write_text(document(macros, r"\input{report.tex}", "book"))
    assert "Chapter 1" in compiled(path)


@pytest.mark.tex
def test_a_suite_compiles_with_its_figures(cli: Any, suites: Any, compiled: Any) -> None:
    suites()
    cli("compare", "fast", "slow", "--for", "throughput,memory,flops", "--name", "cells")
    files = cli("report", "cells", "--to", "latex", "-o", "paper/", "--json").document["files"]
    assert Path("paper/report-throughput-by-cell.pdf").resolve() in map(Path, files)
    text = compiled(Path("paper/report.tex"), tidy=True)
    assert "fast is 16.3% faster than slow" in " ".join(text.split())
    assert "OOM" in text
    Path("mine.tex").write_text(document(r"\newcommand{\steelyardfigures}{paper}", r"\input{paper/report}"))
    assert "Throughput" in compiled(Path("mine.tex"))


@pytest.mark.tex
@pytest.mark.parametrize("name", ["baseline", "a_b%c$d#e^^f~g{h}\\input{x}&<中>"])
def test_a_run_of_any_name_compiles(cli: Any, recorded: Any, compiled: Any, name: str) -> None:
    recorded(to=name).set("software", {"torch": "2\\write18{touch owned}%_$"}).set("hosts", ["\\host_1%"])
    done = cli("report", f"runs/{name}", "--to", "latex", "-o", "paper/")
    assert done.status == 0, done.err
    assert "7,754" in compiled(Path("paper/report.tex"))
    assert not Path("paper/owned").exists()


@pytest.mark.tex
def test_long_names_fit_the_page(cli: Any, recorded: Any, compiled: Any) -> None:
    for side in ("megatron-lm-main-on-eight-h200", "primus-megatron-on-eight-mi300x"):
        run = recorded(to=f"{side}/baseline-with-a-long-name")
        run.set("experiment/model/preset", "llama3.1-8b-with-a-name-of-its-own").slower(1 + len(side) / 100)
    cli("compare", "megatron-lm-main-on-eight-h200", "primus-megatron-on-eight-mi300x", "--name", "long")
    assert cli("report", "long", "--to", "latex", "-o", "paper/").status == 0
    assert "primus" in compiled(Path("paper/report.tex"), tidy=True)
