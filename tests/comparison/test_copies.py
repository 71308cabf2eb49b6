"""One run under several names is one observation."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steelyard import records
from steelyard.comparison.copies import digest, of_one_record
from steelyard.records import Column
from steelyard.verdict import read_subject

SPREAD = (0.99, 1.0, 1.01)


@pytest.fixture
def sides(recorded: Any) -> tuple[Any, ...]:
    """runs/a and runs/b, of three runs that differ."""
    return tuple(
        recorded("baseline", f"{name}/{at}").slower(pace * factor)
        for name, pace in (("a", 0.8), ("b", 1.0))
        for at, factor in enumerate(SPREAD)
    )


def refused(done: Any, *runs: str) -> str:
    """The sentence of a side that holds one run twice."""
    error = done.document["error"]
    assert (done.status, error["key"], error["expected"]) == (2, "TARGET", "each run once"), done.out
    assert error["next"] == f"leave out {runs[1]}"
    assert all(run in error["message"] for run in runs)
    assert not Path("runs/comparisons").exists()
    return str(error["message"])


def test_copies_of_a_run_are_refused(cli: Any, sides: Any) -> None:
    for name in ("1", "2"):
        shutil.rmtree(f"runs/a/{name}")
        shutil.copytree("runs/a/0", f"runs/a/{name}")
    said = refused(cli("compare", "a", "b", "--json"), "runs/a/0", "runs/a/1")
    assert "have the same record" in said


@pytest.mark.parametrize("first", [2, 4])
def test_a_log_without_its_first_lines_is_no_second_run(cli: Any, recorded: Any, sides: Any, first: int) -> None:
    shutil.rmtree("runs/a"), recorded("baseline", "a/0")
    recorded("baseline", "a/0b").edit_steps(lambda step: step if step["step"] >= first else None)
    refused(cli("compare", "a", "b", "--json"), "runs/a/0", "runs/a/0b")


def test_a_run_of_which_a_step_was_changed_is_no_second_one(cli: Any, recorded: Any, sides: Any) -> None:
    shutil.rmtree("runs/a"), recorded("baseline", "a/0")
    recorded("baseline", "a/1").edit_steps(lambda step: {**step, "step_time_s": 2.2} if step["step"] == 30 else step)
    refused(cli("compare", "a", "b", "--json"), "runs/a/0", "runs/a/1")


def test_links_to_a_run_are_refused(cli: Any, sides: Any) -> None:
    Path("runs/c").mkdir()
    for name in ("x", "y", "z"):
        Path("runs/c", name).symlink_to(Path("runs/a/0").resolve())
    assert "are the same directory" in refused(cli("compare", "c", "b", "--json"), "runs/c/x", "runs/c/y")
    assert "names runs/a/0 twice" in refused(cli("compare", "a/0,a/0", "b", "--json"), "runs/a/0", "runs/a/0")


def test_a_log_read_thrice_is_one_run(cli: Any, tmp_path: Path) -> None:
    rows = "".join(f"{step},{10 - step / 10:.3f},{2 + step % 3 / 100},100\n" for step in range(1, 61))
    (tmp_path / "log.csv").write_text(f"step,loss,step_time_s,tokens\n{rows}")
    for name in ("i1", "i2"):
        cli("ingest", "log.csv", "--gpu", "h200", "--gpus", "1", "--nodes", "1", "--name", name)
    refused(cli("compare", "i1,i2", "i1", "--json"), "runs/i1", "runs/i2")
    cli("ingest", "log.csv", "--gpu", "mi300x", "--gpus", "1", "--nodes", "1", "--name", "amd")
    (copied,) = cli("compare", "amd", "i1", "--json").reasons("throughput", "run_on_both_sides")
    assert copied["effect"] == "caveat"
    assert copied["message"] == "both sides contain the same run: amd (same record as i1)"


def test_a_log_read_before_it_ended_is_the_same_run(cli: Any, tmp_path: Path) -> None:
    rows = [f"{step},{10 - step / 10:.3f},{2 + step % 3 / 100},100\n" for step in range(1, 61)]
    for name, count in (("early", 50), ("late", 60)):
        (tmp_path / f"{name}.csv").write_text("step,loss,step_time_s,tokens\n" + "".join(rows[:count]))
        cli("ingest", f"{name}.csv", "--gpu", "h200", "--gpus", "1", "--nodes", "1", "--name", name)
    refused(cli("compare", "early,late", "late", "--json"), "runs/late", "runs/early")


@pytest.mark.parametrize("counts", [(19, 15), (3, 2), (1, 1)])
def test_a_log_read_soon_after_it_began_is_the_same_run(cli: Any, tmp_path: Path, counts: tuple[int, int]) -> None:
    rows = [f"{step},{10 - step / 10:.3f},{2 + step % 3 / 100},100\n" for step in range(1, 61)]
    for name, count in zip(("late", "soon", "sooner"), (60, *counts), strict=True):
        (tmp_path / f"{name}.csv").write_text("step,loss,step_time_s,tokens\n" + "".join(rows[:count]))
        cli("ingest", f"{name}.csv", "--gpu", "h200", "--gpus", "1", "--nodes", "1", "--name", name)
    refused(cli("compare", "sooner,late", "late", "--json"), "runs/late", "runs/sooner")
    refused(cli("compare", "soon,sooner", "late", "--json"), "runs/soon", "runs/sooner")
    assert cli("compare", "sooner", "late", "--json").reasons("throughput", "run_on_both_sides")


def test_a_run_that_began_alike_and_went_on_otherwise_is_another(recorded: Any) -> None:
    """Many of one seed, of many lengths: each begins as the others do, and two of them are one."""
    made = [
        recorded("baseline", f"a/{at}").edit_steps(
            lambda step, at=at: (
                {**step, "loss": step["loss"] + at * (step["step"] > 1)} if step["step"] <= 2 + at % 7 else None
            )
        )
        for at in range(12)
    ]
    cut = recorded("baseline", "a/cut").edit_steps(
        lambda step: {**step, "loss": step["loss"] + 6 * (step["step"] > 1)} if step["step"] <= 4 else None
    )
    subjects = [read_subject(records.load(run.directory)) for run in (*made, cut)]
    assert [[one.run.directory.name for one in same] for same in of_one_record(subjects)] == [["6", "cut"]]


def test_one_row_without_a_time_is_any_run_of_its_seed(cli: Any, tmp_path: Path) -> None:
    for name, count in (("crashed", 1), ("whole", 40)):
        rows = "".join(f"{step},{10 - step / 10}\n" for step in range(1, count + 1))
        (tmp_path / f"{name}.csv").write_text(f"step,loss\n{rows}")
        cli("ingest", f"{name}.csv", "--name", name)
    error = cli("compare", "whole,crashed", "whole", "--json").document["error"]
    assert "so one may be a copy" in error["message"]
    assert not cli("compare", "crashed", "whole", "--json").reasons("convergence", "run_on_both_sides")


def test_losses_alone_cannot_be_told_from_a_copy(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("step,loss\n" + "".join(f"{step},{10 - step / 10}\n" for step in range(1, 41)))
    for name in ("a", "b"):
        cli("ingest", "log.csv", "--name", name)
    error = cli("compare", "a,b", "a", "--json").document["error"]
    assert "have the same losses and no step times, so one may be a copy" in error["message"]


def test_equal_losses_at_other_times_are_two_runs(cli: Any, recorded: Any) -> None:
    recorded("baseline", "a/1"), recorded("baseline", "a/2").slower(1.001), recorded("again")
    assert cli("compare", "a", "again").status == 5


def test_runs_without_steps_are_not_held_against_each_other(cli: Any, recorded: Any) -> None:
    for name in ("a/1", "a/2"):
        recorded("baseline", name).edit_steps(lambda step: None)
    recorded("again")
    assert cli("compare", "a", "again").status == 5


@pytest.mark.parametrize(("mode", "status", "said"), [("best", 5, "qualified"), ("matched", 4, "not_comparable")])
def test_a_copy_on_the_other_side_equals_itself(cli: Any, recorded: Any, mode: str, status: int, said: str) -> None:
    recorded("baseline", "a"), recorded("baseline", "b")
    for names, word in ((("a", "a"), "a"), (("a", "b"), "a (same record as b)")):
        done = cli("compare", *names, "--mode", mode, "--json")
        assert (done.status, done.document["comparable"]["throughput"]["status"]) == (status, said)
        (copied,) = done.reasons("throughput", "run_on_both_sides")
        assert (copied["effect"], copied["side"]) == ("caveat" if mode == "best" else "blocks", "both")
        assert copied["message"] == f"both sides contain the same run: {word}"


def test_several_on_both_sides_are_all_named(cli: Any, sides: Any) -> None:
    (copied,) = cli("compare", "a", "a", "--json").reasons("throughput", "run_on_both_sides")
    assert copied["message"] == "both sides contain the same runs: 0, 1, 2"


@pytest.mark.parametrize("still", ["a", "b"])
def test_a_side_whose_figures_are_all_equal_decides_nothing(cli: Any, sides: Any, still: str) -> None:
    """Rates that a program rounds: other losses, and one rate."""
    for at, run in enumerate(sides[:3] if still == "a" else sides[3:]):
        if at:
            shutil.copy(f"runs/{still}/0/steps.jsonl", run)
        run.edit_steps(lambda step, at=at: {**step, "loss": step["loss"] + at / 1e4})
    done = cli("compare", "a", "b", "--json")
    ratio = done.document["throughput_speedup"]
    assert (done.status, ratio["low"], ratio["high"], ratio["decided"]) == (5, None, None, False)
    assert (ratio["method"], ratio["more_runs"]) == (None, None)
    assert ratio["outcome"] == "no_spread"
    caveats = [(one["code"], one["side"]) for one in ratio["caveats"]]
    assert ("runs_do_not_vary", {"a": "target", "b": "baseline"}[still]) in caveats
    assert "\n  caveat: all runs of" in cli("compare", "a", "b").out


def test_a_not_a_number_is_one_however_it_is_spelt(recorded: Any) -> None:
    steps = records.table(recorded().edit_steps(lambda step: {**step, "grad_norm": None}).directory)
    spelt = np.full(len(steps), 0xFFF8000000000001, dtype=np.uint64).view(np.float64)
    assert np.isnan(spelt).all()
    assert digest(
        replace(steps, columns={**steps.columns, "grad_norm": Column(spelt, steps.grad_norm.given)})
    ) == digest(steps)


@pytest.mark.parametrize(
    ("key", "value"), [("platform/gpu", "h100"), ("framework", "megatron"), ("experiment/precision/dtype", "fp16")]
)
def test_a_side_is_of_one_platform(cli: Any, sides: Any, key: str, value: str) -> None:
    sides[1].set(key, value)
    done = cli("compare", "a", "b", "--json")
    named = key.removeprefix("experiment/").replace("/", ".") if "/" in key else f"platform.{key}"
    assert (done.status, done.document["error"]["value"]) == (2, named)
    assert f"target: {named} differs: " in done.document["error"]["message"]


def test_a_directory_names_a_side_only_where_it_holds_no_other_run(cli: Any, recorded: Any) -> None:
    for at in range(5):
        recorded("baseline", f"ing/r{at}").slower(1 + at / 1000)
    done = cli("compare", "ing/r0,ing/r1,ing/r2", "ing/r3,ing/r4")
    assert done.out.startswith("r0 (and 2 more) runs at 7,746 tokens/s per GPU, r3 (and 1 more) at 7,727")
    assert cli("report", "r0-and-2-more-vs-r3-and-1-more").status == 0
