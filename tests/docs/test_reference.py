"""The pages of reference are what the code says."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from steelyard.configs.cvs.keys import TABLES

ROOT = Path(__file__).parents[2]


def pages() -> dict[Path, Any]:
    spec = importlib.util.spec_from_file_location("make_reference", ROOT / "docs" / "reference" / "make.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    found: dict[Path, Any] = made.PAGES
    return found


@pytest.mark.parametrize("path", pages(), ids=lambda path: path.name)
def test_a_page_is_up_to_date(path: Path) -> None:
    assert path.read_text() == pages()[path](), "python docs/reference/make.py"


def test_every_key_of_an_experiment_is_explained() -> None:
    page = (ROOT / "docs" / "reference" / "experiment.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    assert len(rows) > 90
    assert all(len(row.rstrip(" |").rsplit("|", 1)[1].strip()) > 5 for row in rows if "`network`" not in row)


def test_every_key_of_a_family_says_what_reads_it() -> None:
    for config, model in TABLES.values():
        for name, key in (*config.items(), *model.items()):
            assert key.reads, name
            assert key.meaning.endswith("."), name
