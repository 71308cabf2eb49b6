"""The pages are plain, opened with commands, and linked."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from statistics import median

import pytest

import language
from docs.test_reference import pages

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
OUTSIDE = sorted(ROOT.glob("*.md"))
WITHOUT_COMMANDS = {"glossary.md"}
WRITTEN = [page for page in language.PAGES if page not in pages()]
"""The texts of the others are those of the source, which has a test of its own."""
KINDS = ("tutorial", "how-to", "reference", "explanation", "cases")


def sentence_lengths(page: Path) -> list[int]:
    return [len(part.split()) for text in language.page_texts(page) for part in language.sentences(text.text)]


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_is_in_plain_language(page: Path) -> None:
    texts = list(language.page_texts(page))
    assert [f"{text.place}: {problem}" for text in texts for problem in language.problems(text.text)] == []
    assert [length for length in sentence_lengths(page) if length > language.MAX_WORDS] == []


def test_the_median_sentence_is_short() -> None:
    assert median(length for page in language.PAGES for length in sentence_lengths(page)) <= language.MAX_MEDIAN


@pytest.mark.parametrize(
    "page", [page for kind in KINDS for page in sorted((DOCS / kind).glob("*.md"))], ids=lambda page: page.name
)
def test_a_page_opens_with_its_commands(page: Path) -> None:
    lines = page.read_text().splitlines()
    if page.name not in WITHOUT_COMMANDS and page in WRITTEN:
        start = next(number for number, line in enumerate(lines) if line.startswith(("```", "    ")))
        assert start <= 4


@pytest.mark.parametrize("page", OUTSIDE, ids=lambda page: page.name)
def test_a_link_from_outside_the_site_leads_somewhere(page: Path) -> None:
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)", page.read_text()):
        file = page.parent / target if target else page
        assert file.exists(), target
        headings = (
            [line.lstrip("# ") for line in file.read_text().splitlines() if line.startswith("#")] if anchor else []
        )
        slugs = [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings]
        assert not anchor or anchor in slugs, f"{target}#{anchor}"


@pytest.mark.processes
def test_the_site_builds_without_a_warning_and_loads_nothing_from_the_network(tmp_path: Path) -> None:
    pytest.importorskip("material", reason="make docs needs mkdocs-material")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(
        command, cwd=ROOT, env={"PATH": "", "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    loaded = re.compile(r'<(?:script|img|source)[^>]+src="https?:|<link[^>]+href="https?:|url\("?https?:')
    for page in (tmp_path / "site").rglob("*.html"):
        assert not loaded.search(page.read_text()), page
    shutil.rmtree(tmp_path / "site")
