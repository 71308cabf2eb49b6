"""What keeps the code easy to change: short functions, short modules, names that say what they hold."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "steelyard"
MODULES = sorted(SOURCE.rglob("*.py"))
LONGEST_FUNCTION = 60
LONGEST_MODULE = 400
SAY_NOTHING = {"one", "found", "told", "said", "beside", "heard", "wanting", "thing"}
"""A variable, class or module of such a name could hold anything."""
STORED = {"manifest.py": ("said",)}
"""Keys of run.json, which stay what they are."""


def _names(tree: ast.AST) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name, node.lineno
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                yield name, node.lineno


def unclear_names(text: str) -> list[str]:
    return [f"{line}: {name}" for name, line in _names(ast.parse(text)) if name.lower().strip("_") in SAY_NOTHING]


def long_functions(text: str) -> list[str]:
    functions = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return [node.name for node in functions if (node.end_lineno or 0) - node.lineno + 1 > LONGEST_FUNCTION]


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_module_is_short_and_its_names_say_what_they_hold(module: Path) -> None:
    text = module.read_text()
    assert len(text.splitlines()) <= LONGEST_MODULE
    assert long_functions(text) == []
    assert [name for name in unclear_names(text) if name.partition(": ")[2] not in STORED.get(module.name, ())] == []
    assert module.stem not in SAY_NOTHING


def test_what_is_too_long_or_unclear_is_found() -> None:
    assert long_functions("def f():\n" + "    pass\n" * LONGEST_FUNCTION) == ["f"]
    assert long_functions("def f():\n" + "    pass\n" * (LONGEST_FUNCTION - 1)) == []
    assert set(unclear_names("def f(found):\n    _one = found\nclass Told: ...\n")) == {
        "1: found",
        "2: _one",
        "3: Told",
    }
    assert unclear_names("finding = found(said)\n") == []
