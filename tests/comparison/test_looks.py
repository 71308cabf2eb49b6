"""A second look at a growing set of runs is recognized and stricter."""

import json
from pathlib import Path
from typing import Any

import pytest

from steelyard.comparison import codes
from steelyard.comparison.intervals import error_at


@pytest.fixture
def runs(recorded: Any) -> list[str]:
    """Four names per side: a0 to a3 and b0 to b3."""
    for side, speed in (("a", 1.0), ("b", 1.05)):
        for at, own in enumerate((1.0, 1.03, 0.97, 1.01)):
            recorded("baseline", f"{side}{at}").slower(speed * own * (1.001 if side == "b" else 1.0))
    return [",".join(f"{side}{at}" for at in range(count)) for count in (3, 4) for side in "ab"]


def look(done: Any) -> tuple[int, list[Any]]:
    ratio = done.document["throughput_speedup"]
    later = [caveat["code"] for caveat in ratio["caveats"] if caveat["code"] == codes.LATER_LOOK.name]
    assert ratio["look"] == done.document["look"]
    return ratio["look"], later


def test_more_runs_of_the_same_sides_are_a_second_look(cli: Any, runs: list[str]) -> None:
    assert look(cli("compare", runs[0], runs[1], "--json")) == (1, [])
    assert look(cli("compare", runs[0], runs[1], "--json")) == (1, [])  # the same runs: nothing new was seen
    second = cli("compare", runs[2], runs[3], "--json", "--name", "second")
    assert look(second) == (2, [codes.LATER_LOOK.name])
    assert look(cli("compare", runs[3], runs[2], "--json"))[0] == 2  # the sides in the other order
    ratio = second.document["throughput_speedup"]
    assert ratio["high"] / ratio["low"] > 1.1
    assert error_at(2) == pytest.approx(0.008)


def test_a_saved_look_stays_what_it_was(cli: Any, runs: list[str]) -> None:
    cli("compare", runs[0], runs[1], "--name", "first"), cli("compare", runs[2], runs[3], "--name", "second")
    for name, expected in (("first", 1), ("second", 2)):
        path = Path("runs/comparisons") / name / "comparison.json"
        assert json.loads(path.read_text())["look"] == expected
        assert cli("report", name, "--to", "md").status == 0
    assert "look 2 at a growing set of runs" in Path("runs/comparisons/second/report.md").read_text()


def test_observations_and_unreadable_comparisons_are_no_looks(cli: Any, runs: list[str]) -> None:
    cli("compare", "a0", "b0"), cli("compare", "a0,a1", "b0,b1")
    broken = Path("runs/comparisons/broken")
    broken.mkdir()
    (broken / "comparison.json").write_text("{")
    assert look(cli("compare", runs[0], runs[1], "--json")) == (1, [])
