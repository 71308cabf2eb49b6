"""The page of keys is what the models say."""

from pathlib import Path

from steelyard.experiment.reference import page


def test_the_page_of_keys_is_up_to_date() -> None:
    kept = Path(__file__).parents[2] / "docs" / "keys.md"
    assert kept.read_text() == page(), "python -m steelyard.experiment.reference > docs/keys.md"


def test_every_key_is_explained() -> None:
    rows = [line for line in page().splitlines() if line.startswith("| `")]
    assert len(rows) > 60
    assert all(len(row.rstrip(" |").rsplit("|", 1)[1].strip()) > 5 for row in rows)
