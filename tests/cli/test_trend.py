"""steelyard runs trend: a metric over runs of one experiment."""

from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def three(recorded: Any) -> None:
    recorded("half-batch").set("provenance/started", "2026-11-15T07:00:00.000+09:00")
    for name in ("again", "baseline"):
        recorded(name)


def test_runs_are_in_order_and_another_job_is_kept_apart(cli: Any, three: None) -> None:
    cli("check", "again")
    document = cli("runs", "trend", "--json").document
    assert (document["metric"], document["experiment"]) == ("tokens_per_s_per_gpu", "llama3.1-8b")
    assert [run["name"] for run in document["runs"]] == ["half-batch", "baseline", "again"]
    assert [run["verdict"] for run in document["runs"]] == [None, None, "pass"]
    assert [run["differs"] for run in document["runs"]] == [
        ["training.tokens_per_step", "training.global_batch_size"],
        [],
        [],
    ]
    assert [round(run["value"]) for run in document["runs"]] == [6080, 7754, 7753]


def test_text_draws_bars_from_zero(cli: Any, recorded: Any, three: None) -> None:
    recorded("again", "slow").edit_steps(lambda step: {**step, "step_time_s": step["step_time_s"] * 2})
    lines = cli("runs", "trend").out.splitlines()
    assert "no CI" in lines[0]
    bars = {line.split()[1]: line.count("#") for line in lines[2:-1]}
    assert (bars["baseline"], bars["slow"], bars["half-batch"]) == (20, 10, 0)
    assert "another job" in next(line for line in lines if "half-batch" in line)
    assert lines[-1].startswith("  another job than the latest run: training.")


def test_a_run_without_the_figure_says_why(cli: Any, recorded: Any, three: None) -> None:
    recorded("again", "blind").edit_steps(lambda step: {k: v for k, v in step.items() if k != "memory_gib"})
    runs = cli("runs", "trend", "memory_peak_gib", "--json").document["runs"]
    blind = next(run for run in runs if run["name"] == "blind")
    assert (blind["value"], blind["reason_code"]) == (None, "no_memory")
    assert blind["reason"]
    assert {run["reason_code"] for run in runs if run is not blind} == {None}


def test_a_page_is_written_and_only_ours_replaced(cli: Any, three: None, tmp_path: Path) -> None:
    done = cli("runs", "trend", "mfu", "--html", "trend.html", "--json")
    assert done.document["file"] == str(tmp_path / "trend.html")
    page = (tmp_path / "trend.html").read_text()
    assert "MFU over runs of llama3.1-8b" in page
    assert "training.tokens_per_step" in page
    assert cli("runs", "trend", "mfu", "--html", "trend.html").status == 0
    (tmp_path / "mine.html").write_text("mine")
    assert cli("runs", "trend", "mfu", "--html", "mine.html").status == 2


def test_several_experiments_must_be_told_apart(cli: Any, recorded: Any, three: None) -> None:
    recorded("again", "other").set("experiment/name", "other")
    done = cli("runs", "trend", "--json")
    assert done.status == 2
    assert done.document["error"]["expected"] == "one of llama3.1-8b, other"
    assert len(cli("runs", "trend", "--experiment", "other", "--json").document["runs"]) == 1


@pytest.mark.parametrize("words", [("speed",), ("--experiment", "nothing")])
def test_wrong_input_is_named(cli: Any, three: None, words: tuple[str, ...]) -> None:
    assert cli("runs", "trend", *words).status == 2


def test_no_runs_is_wrong_input(cli: Any) -> None:
    assert cli("runs", "trend").status == 2


def test_a_run_that_cannot_be_read_is_left_out_by_name(cli: Any, three: None) -> None:
    Path("runs/again/run.json").write_text("{")
    done = cli("runs", "trend", "--json")
    assert done.status == 0
    assert len(done.document["runs"]) == 2
    assert "left out: runs/again/run.json" in done.err


def test_nothing_known_of_two_runs_does_not_make_them_alike(cli: Any, recorded: Any) -> None:
    for name in ("again", "half-batch"):
        recorded(name).set("experiment", {"name": "foreign"})
    runs = cli("runs", "trend", "step_time_s", "--json").document["runs"]
    assert "model.num_layers (not recorded)" in runs[0]["differs"]
    assert runs[1]["differs"] == []  # the latest is its own job


def test_a_run_with_a_line_that_cannot_be_read_says_so_and_stops_nothing(cli: Any, three: None) -> None:
    Path("runs/again/steps.jsonl").write_text("{\n")
    Path("runs/half-batch/verdict.json").write_text("{")
    runs = cli("runs", "trend", "--json").document["runs"]
    assert [run["value"] is None for run in runs] == [False, False, True]
    assert runs[0]["verdict"] is None
    assert "line 1 cannot be read" in runs[2]["reason"]


@pytest.mark.parametrize("started", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "2026-13-45", ""])
def test_a_start_that_is_not_a_moment_of_utc_is_sorted_as_it_is_written(cli: Any, recorded: Any, started: str) -> None:
    recorded().set("provenance/started", started)
    recorded("again")
    done = cli("runs", "trend", "--json")
    assert done.status == 0
    assert {run["name"]: run["started"] for run in done.document["runs"]}["baseline"] == started
