"""Every text a person reads keeps to the glossary and to plain English."""

import re
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from language import (
    MAX_MEDIAN,
    MAX_WORDS,
    PAGES,
    ROOT,
    SOURCE,
    data_texts,
    page_texts,
    problems,
    sentences,
    source_texts,
)

pytestmark = [pytest.mark.processes, pytest.mark.quick]

VERBS = (
    *("demo", "init", "lint", "explain", "plan", "preflight", "run", "ingest", "check", "compare", "report", "runs"),
    *("runs list", "runs show", "runs trend", "runs learn", "runs scaling"),
)


@pytest.mark.parametrize(
    "text",
    [
        "the run is no run, neither as a path nor under runs",
        "tokens/s a GPU",
        "that is said beside it",
        "one node speaks for the run",
        "what nobody set",
        "a job that nobody asked after for so long",
        "a figure of no model",
        "the batch is not known",
    ],
)
def test_a_text_in_the_old_voice_is_found(text: str) -> None:
    assert list(problems(text))


@pytest.mark.parametrize("text", ["there is no longer a limit", "tokens/s per GPU", "Run `is no` again", "a GPU"])
def test_a_plain_text_is_not(text: str) -> None:
    assert not list(problems(text))


def _found(texts: Any) -> list[str]:
    return [f"{place}: {problem}" for place, text in texts for problem in problems(text)]


def test_no_text_of_the_program_is_in_the_old_voice() -> None:
    paths = sorted(path for path in SOURCE.rglob("*.py"))
    texts = [text for path in paths for text in source_texts(path)]
    assert len(texts) > 3000
    assert _found(texts) == []


def test_no_template_and_no_packaged_config_is_in_the_old_voice() -> None:
    paths = [path for path in sorted(SOURCE.rglob("*")) if path.suffix in (".html", ".js", ".yaml", ".json", ".sh")]
    texts = [text for path in paths for text in data_texts(path)]
    assert len(texts) > 100
    assert _found(texts) == []


def test_no_page_is_in_the_old_voice() -> None:
    assert _found(text for path in PAGES for text in page_texts(path)) == []


def test_sentences_of_pages_are_short() -> None:
    lengths = {
        f"{place}: {sentence}": len(sentence.split())
        for path in PAGES
        for place, text in page_texts(path)
        for sentence in sentences(text)
    }
    assert len(lengths) > 500
    assert [sentence for sentence, words in lengths.items() if words > MAX_WORDS] == []
    prose = [words for sentence, words in lengths.items() if not sentence.startswith("docs/reference/")]
    assert median(prose) <= MAX_MEDIAN


@pytest.fixture(scope="module")
def helps() -> dict[str, str]:
    """What `steelyard VERB --help` prints on 80 columns."""
    probe = (
        "import os, sys; os.environ['COLUMNS'] = '80'\n"
        "from typer.testing import CliRunner\n"
        "from steelyard.cli.main import app\n"
        "for verb in sys.argv[1:]:\n"
        "    print('\\0' + CliRunner().invoke(app, [*verb.split(), '--help'], prog_name='steelyard').output)\n"
    )
    command = [sys.executable, "-c", probe, "", *VERBS]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    return dict(zip(("", *VERBS), printed.split("\0")[1:], strict=True))


@pytest.mark.parametrize("verb", ["", *VERBS])
def test_help_fits_and_is_plain(verb: str, helps: dict[str, str]) -> None:
    text = helps[verb]
    assert text.startswith("Usage: steelyard")
    assert list(problems(text)) == []
    assert max(map(len, text.splitlines())) <= 80
    _, _, commands = text.partition("Commands:")
    assert not [line for line in commands.splitlines() if line.endswith("...")], "a summary is cut"
    assert not re.search(r"<\w", text), "a type of Python"
    assert " | steelyard " not in text, "one example per line"


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "runs"])
def test_every_verb_has_examples(verb: str, helps: dict[str, str]) -> None:
    _, _, examples = helps[verb].partition("Examples:")
    lines = examples.splitlines()
    assert any(line.startswith(f"    steelyard {verb}") for line in lines)


def test_the_tool_lists_what_to_rewrite(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("The log says so.\n")
    done = subprocess.run(
        [sys.executable, ROOT / "tests" / "language.py", page], capture_output=True, text=True, check=True
    )
    assert "1 to rewrite" in done.stdout
