"""Papers as PDF, set by typst."""

import io
import sys
from pathlib import Path
from typing import Any

import pytest
from pypdf import PdfReader

from reporting.test_latex import HOSTILE, hostile_paper
from steelyard.errors import InputError
from steelyard.reporting import pdf


def text_of(content: bytes) -> str:
    return " ".join(page.extract_text() for page in PdfReader(io.BytesIO(content)).pages)


def squeezed(text: str) -> str:
    """Without what a line break may change."""
    return "".join(text.replace("\u00ad", "").split()).replace("-", "")


def test_hostile_text_is_set_as_it_is_written() -> None:
    text = text_of(pdf.render(hostile_paper()))
    assert squeezed(HOSTILE.partition("`c`")[0]) in squeezed(text)
    assert "\\u202e" in text
    assert "root:" not in text


def test_the_same_paper_gives_the_same_bytes() -> None:
    content = pdf.render(hostile_paper())
    assert pdf.render(hostile_paper()) == content
    assert pdf.MARK.encode() in content


def test_a_paper_has_its_answer_tables_and_equations(cli: Any, suites: Any) -> None:
    suites()
    cli("compare", "fast", "slow", "--for", "throughput,memory,flops", "--name", "cells")
    done = cli("report", "cells", "-o", "paper.pdf")
    assert done.status == 0, done.err
    text = " ".join(text_of(Path("paper.pdf").read_bytes()).split())
    for words in ("fast is 16.3% faster than slow", "ThroughputSpeedup", "Table 3", "OOM", "Holm", "1 Introduction"):
        assert words in text
    assert cli("report", "cells", "-o", "paper.pdf").status == 0  # ours is replaced
    Path("paper.pdf").write_bytes(b"%PDF-1.7 mine")
    assert cli("report", "cells", "-o", "paper.pdf").status == 2


def test_without_typst_the_error_names_the_extra(cli: Any, recorded: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "typst", None)
    run = recorded("baseline")
    refused = cli("report", run, "--to", "html,pdf", "--json")
    assert (refused.status, refused.document["error"]["next"]) == (2, "pip install 'steelyard[paper]'")
    assert not Path(run, "report.html").exists()
    with pytest.raises(InputError):
        pdf.render(hostile_paper())
