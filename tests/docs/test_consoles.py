"""What the pages show is what a reader gets: console blocks are run, and command lines name what exists."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from docs import consoles
from docs.consoles import ANY, Command, blocks, matches, refreshed
from steelyard.cli.main import app

RUN = [page for page in consoles.PAGES if any(block.runs for block in blocks(page.read_text().splitlines()))]
TARGETS = set(re.findall(r"^([a-z-]+):", (consoles.ROOT / "Makefile").read_text(), re.MULTILINE))


def marked(page: Path) -> Any:
    commands = [line for block in blocks(page.read_text().splitlines()) if block.runs for line in block.commands]
    trains = any(consoles.TRAINS.search(command.text) for command in commands)
    marks = [pytest.mark.processes, *([pytest.mark.torch] if trains else [])]
    return pytest.param(page, id=str(page.relative_to(consoles.ROOT)), marks=marks)


@pytest.mark.parametrize("page", [*map(marked, RUN)])
def test_a_page_shows_what_is_printed(page: Path) -> None:
    different = [consoles.difference(result) for result in consoles.outcomes(page) if result.differs]
    assert not different, "\n".join([*different, "python tests/docs/consoles.py --write refreshes the page"])


def command_lines(page: Path) -> Iterator[tuple[int, str]]:
    """Every command of ours on a page: in blocks, with a prompt or without, and within a sentence."""
    lines = page.read_text().splitlines()
    fenced = False
    for number, line in enumerate(lines, start=1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
            continue
        text = line.strip().removeprefix("- run: ").removeprefix("$ ")
        if fenced or line.startswith("    "):
            at = number
            while text.endswith("\\"):
                text, at = text[:-1] + lines[at].strip(), at + 1
            yield from ((number, part) for part in re.split(r"&&|\|(?!\w)|;(?= )", text))
        else:
            yield from ((number, code) for code in re.findall(r"`([^`]+)`", line))


def unknown_parts(line: str) -> list[str]:
    """What a command line names and the command line has not: make's target, the verb, its options."""
    try:
        words = shlex.split(re.sub(r"[\[\]…]", " ", line).partition("  #")[0], comments=True)
    except ValueError:
        return []
    if words[:1] == ["make"]:
        return [word for word in words[1:] if "=" not in word and word not in TARGETS]
    if words[:1] != ["steelyard"]:
        return []
    command: Any = typer.main.get_command(app)
    words = words[1:]
    while hasattr(command, "commands") and words and not words[0].startswith("-"):
        name = words.pop(0)
        if not re.fullmatch(r"[a-z][a-z-]*", name):
            return []  # a placeholder for any verb
        if name not in command.commands:
            return [name]
        command = command.commands[name]
    options = {"-h", "--help"} | {name for parameter in command.params for name in parameter.opts}
    asked = [re.split(r"[=/]", word)[0] for word in words if re.match(r"--?[a-zA-Z]", word)]
    return [name for name in asked if name not in options]


@pytest.mark.parametrize("page", consoles.PAGES, ids=lambda page: str(page.relative_to(consoles.ROOT)))
def test_a_command_line_names_what_exists(page: Path) -> None:
    wrong = [f"{number}: {line}: {parts}" for number, line in command_lines(page) if (parts := unknown_parts(line))]
    assert wrong == []


def test_a_verb_and_an_option_that_do_not_exist_are_found() -> None:
    assert unknown_parts("steelyard chekc first") == ["chekc"]
    assert unknown_parts("steelyard check first --treshold 'mfu>=0.4' --junit FILE") == ["--treshold"]
    assert unknown_parts("steelyard runs list --out DIR") == []
    assert unknown_parts("make tset") == ["tset"]


def test_elided_lines_and_numbers_match() -> None:
    shown = ["verdict: PASS", ANY, "  rate 5.1 s"]
    assert matches(shown, ["verdict: PASS", "a", "b", "  rate 5.1 s"], varies=False)
    assert not matches(shown, ["verdict: PASS", "a", "  rate 5.2 s"], varies=False)
    assert matches(shown, ["verdict: PASS", "  rate 1,234 s"], varies=True)
    assert not matches(shown, ["verdict: PASS", "  rate 1,234 ms"], varies=True)
    assert matches([f"wrote {ANY}/report.html"], ["wrote runs/a/report.html"], varies=False)
    assert not matches(["verdict: PASS"], ["verdict: PASS", "more"], varies=False)


def test_a_refreshed_block_keeps_what_it_leaves_out() -> None:
    printed = ["verdict: FAIL  runs/a", "  fail  loss is NaN", "  pass  one", "  pass  two", "next: a report of a"]
    shown = ["verdict: FAIL  runs/b", ANY, "  pass  two!", f"next: {ANY} of a"]
    new = refreshed(shown, printed)
    assert new == ["verdict: FAIL  runs/a", ANY, "  pass  two", f"next: {ANY} of a"]
    assert matches(new, printed, varies=False)
    assert refreshed(["an old line"], printed) == printed


def test_blocks_are_read_with_their_commands() -> None:
    page = [
        '```console title="Example: on a cluster"',
        "$ a \\",
        "  b",
        "out",
        "$ c",
        "```",
        "",
        "  ```console",
        "  $ d",
        "  e",
        "  ```",
    ]
    first, second = blocks(page)
    assert not first.runs
    assert first.commands == [Command("a \\\n  b", ["out"], 3), Command("c", [], 5)]
    assert (second.indent, second.commands) == ("  ", [Command("d", ["e"], 9)])


def test_a_page_is_refreshed_in_place(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Page\n\n  ```console\n  $ a\n  old\n  $ b\n  …\n  rate 1\n  ```\n\nEnd.\n")
    (block,) = blocks(page.read_text().splitlines())
    first, second = block.commands
    consoles.write(
        page,
        [
            consoles.Outcome(page, block, first, ["new", "newer"]),
            consoles.Outcome(page, block, second, ["left out", "rate 2"]),
        ],
    )
    assert page.read_text() == "# Page\n\n  ```console\n  $ a\n  new\n  newer\n  $ b\n  …\n  rate 2\n  ```\n\nEnd.\n"
