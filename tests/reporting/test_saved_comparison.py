"""A report of a saved comparison has the figures that were saved, or says that its runs have changed."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

KEPT = Path("runs/comparisons/first/comparison.json")


@pytest.fixture
def compared(cli: Any, recorded: Any) -> Any:
    recorded("again")
    run = recorded("baseline")
    Path("sheet.yaml").write_text("h200: 3\n")
    done = cli("compare", "again", "baseline", "--name", "first", "--prices", "sheet.yaml")
    assert done.status == 5, done.err
    return run


def slower(step: dict[str, Any]) -> dict[str, Any]:
    return {**step, "step_time_s": step["step_time_s"] * 1.1}


def test_runs_that_are_what_they_were_are_reported_again(cli: Any, compared: Any) -> None:
    assert cli("report", "first").status == 0
    for path in compared.directory.iterdir():
        path.touch()
    assert cli("report", "first").status == 0


def test_a_tree_may_be_copied_elsewhere(cli: Any, compared: Any) -> None:
    shutil.copytree("runs", "elsewhere")
    shutil.rmtree("runs")
    assert cli("report", "elsewhere/comparisons/first").status == 0


@pytest.mark.parametrize(
    "change",
    [
        lambda run: run.edit_steps(slower),
        lambda run: run.edit_steps(lambda step: step if step["step"] < 60 else None),
        lambda run: run.edit_steps(lambda step: {**step, "flags": ["eval"]} if step["step"] == 40 else step),
        lambda run: run.set("experiment/training/seed", 7),
        lambda run: run.add_event(kind="checkpoint", message="saved", step=40),
        lambda run: (run.directory / "telemetry.jsonl").write_text(""),
    ],
)
def test_a_run_that_changed_is_named_and_the_command_given(cli: Any, compared: Any, change: Any) -> None:
    change(compared)
    done = cli("report", "first", "--json")
    error = done.document["error"]
    assert done.status == 2
    assert "runs/baseline has changed since the comparison first was made" in error["message"]
    assert "runs/again" not in error["message"].split("; next: ")[0]
    assert error["next"].startswith("echo '{\"h200\": 3.0}' > prices.json && steelyard compare ")
    assert "--for throughput --mode best --margin 0.05 --prices prices.json" in error["next"]
    assert not Path("runs/comparisons/first/report.html").exists()


def test_an_older_comparison_without_digests_is_still_read(cli: Any, compared: Any) -> None:
    content = json.loads(KEPT.read_text())
    del content["digests"]
    KEPT.write_text(json.dumps(content))
    compared.edit_steps(slower)
    assert cli("report", "first").status == 0


@pytest.mark.parametrize("digests", [{}, [], {"target": [], "baseline": []}, {"target": ["a"], "baseline": "b"}, "x"])
def test_digests_that_are_not_one_a_run_cannot_be_read(cli: Any, compared: Any, digests: Any) -> None:
    KEPT.write_text(json.dumps({**json.loads(KEPT.read_text()), "digests": digests}))
    done = cli("report", "first")
    assert (done.status, "comparison.json: cannot be read" in done.err) == (2, True), done.err
