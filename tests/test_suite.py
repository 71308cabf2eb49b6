"""The suite itself: what takes long is marked, so that `make test` stays quick, and it runs wherever it was started."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
FILES = [path for path in sorted(TESTS.rglob("test_*.py")) if path.parent.name not in ("integration", "lab")]
Function = ast.FunctionDef | ast.AsyncFunctionDef


SHOWN_BY = {
    "processes": {"subprocess", "shell", "LoopbackSshd"},
    "torch": {"torch"},
    "browser": {"browser", "open_page"},
    "tex": {"compiled"},
    "fuzz": {"EXAMPLES", "LINES", "ANSWERS"},
}
"""The names by which a test shows of which kind it is."""


def names_in(node: ast.AST) -> set[str]:
    """Names that are read or imported in it, and its parameters, which name fixtures."""
    used: set[str] = set()
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            used.add(part.id)
        elif isinstance(part, ast.arg):
            used.add(part.arg)
        elif isinstance(part, ast.alias):
            used.add(part.name.partition(".")[0])
    return used


def reached(name: str, functions: dict[str, set[str]]) -> set[str]:
    """What a function of a module uses, with what the functions and fixtures of that module do that it calls."""
    seen, left = set[str](), [name]
    while left:
        new = functions.get(left.pop(), set()) - seen
        seen |= new
        left += new
    return seen


def marks_of(nodes: list[ast.expr]) -> set[str]:
    return {part.attr for node in nodes for part in ast.walk(node) if isinstance(part, ast.Attribute)}


def unmarked(path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text())
    functions = {node.name: names_in(node) for node in tree.body if isinstance(node, Function | ast.ClassDef)}
    whole = marks_of(
        [node.value for node in tree.body if isinstance(node, ast.Assign) and "pytestmark" in names_in(node)]
    )
    for node in tree.body:
        if isinstance(node, Function) and node.name.startswith("test_"):
            marks = whole | marks_of(node.decorator_list)
            used = reached(node.name, functions)
            for kind, names in SHOWN_BY.items():
                if kind not in marks and used & names:
                    yield f"{node.name} lacks pytest.mark.{kind}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(TESTS)))
def test_what_takes_long_is_marked(path: Path) -> None:
    assert list(unmarked(path)) == []


@pytest.mark.processes
def test_an_interrupt_reaches_what_a_test_starts_though_the_suite_ignores_it() -> None:
    """As a suite does that runs in the background of a script, or under nohup."""
    interrupted = TESTS / "ingestion/test_ingest.py::test_an_interrupt_amid_a_log_leaves_nothing"
    suite = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(interrupted)]
    ignoring = ["sh", "-c", 'trap "" INT HUP; exec "$@"', "sh", *suite]
    done = subprocess.run(ignoring, cwd=TESTS.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
