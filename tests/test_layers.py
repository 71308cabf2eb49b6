"""The order of imports in layers.toml is held by `make lint`."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.processes


def broken(tree: Path) -> str:
    """What lint-imports says of a copy of the source; empty where it keeps the order."""
    done = subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--config", tree / "layers.toml", "--no-cache"],
        cwd=tree,
        env={"PYTHONPATH": str(tree / "src"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout if done.returncode else ""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "layers.toml", tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("package", "line"),
    [
        ("accounting", "from steelyard.verdict import judge"),
        ("frameworks", "def later():\n    from steelyard.linting import lint_file"),
        ("trainer", "import steelyard.errors"),
    ],
    ids=["against the order", "inside a function", "from the trainer"],
)
def test_an_import_against_the_order_fails(tree: Path, package: str, line: str) -> None:
    (tree / "src/steelyard" / package / "added.py").write_text(f"{line}\n")
    assert f"steelyard.{package}.added" in broken(tree)


def test_a_package_that_has_no_place_in_the_order_fails(tree: Path) -> None:
    (tree / "src/steelyard/sundries").mkdir()
    (tree / "src/steelyard/sundries/__init__.py").write_text("")
    assert "sundries" in broken(tree)
