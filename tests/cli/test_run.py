"""steelyard run, as a user runs it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from steelyard import records

pytestmark = [pytest.mark.torch, pytest.mark.processes]


def test_a_run_is_recorded_as_the_design_says(shell: Any, tiny: Path, tmp_path: Path) -> None:
    planned = shell("plan", tiny, "--json").document
    done = shell("run", tiny, "--no-check", "--json")
    assert done.status == 0
    document = done.document
    assert {"run", "framework", "status", "steps", "verdict"} <= set(document)
    assert (document["framework"], document["status"], document["steps"], document["verdict"]) == (
        "native",
        "completed",
        5,
        None,
    )
    directory = Path(document["run"])
    assert directory.parent == tmp_path / "runs"
    assert directory.name.endswith("-tiny-llama-cpu")
    assert json.loads((directory / "plan.json").read_text()) == planned
    assert {path.name for path in directory.iterdir()} == {
        "run.json",
        "plan.json",
        "trainer.json",
        "steps.jsonl",
        "events.jsonl",
        "telemetry.jsonl",
        "logs",
    }
    run = records.load(directory)
    assert run.manifest.sources["training.gradient_accumulation_steps"] == "derived"
    assert run.manifest.software["torch"]
    steps = list(records.steps(directory))
    assert [step.step for step in steps] == [1, 2, 3, 4, 5]
    log = (directory / "logs" / "node0.log").read_text().splitlines()
    for step in steps:
        assert step.source is not None
        assert log[step.source.line - 1].startswith(f"step: {step.step}/5 | loss: {step.loss!r} |")
        assert step.tokens == 16 * 128
        assert step.tokens_per_s_per_gpu == pytest.approx(step.tokens / (step.step_time_s or 0))
    assert [event.kind for event in records.events(directory)] == ["started", "settings", "finished"]
    samples = [json.loads(line) for line in (directory / "telemetry.jsonl").read_text().splitlines()]
    assert samples[0]["device"] == "cpu"
    assert samples[0]["memory_total_gib"] > 0

    listed = shell("runs", "list", "--json").document["runs"]
    assert [(one["run"], one["status"], one["steps"]) for one in listed] == [(str(directory), "completed", 5)]
    assert directory.name in shell("runs", "list").out
    shown = shell("runs", "show", directory.name, "--json").document
    assert shown["last_step"]["step"] == 5
    assert shown["manifest"]["experiment"]["training"]["steps"] == 5


def test_a_run_is_judged_when_it_ends(shell: Any, tiny: Path) -> None:
    done = shell("run", tiny, "--json")
    assert (done.status, done.document["verdict"]) == (0, "pass")
    assert json.loads((Path(done.document["run"]) / "verdict.json").read_text())["verdict"] == "pass"
    diverged = shell("run", tiny, "--json", "--set", "training.learning_rate=1e30")
    assert (diverged.status, diverged.document["status"], diverged.document["verdict"]) == (1, "completed", "fail")


def test_divergence_is_recorded_with_its_nans_and_completes(shell: Any, tiny: Path) -> None:
    done = shell("run", tiny, "--no-check", "--json", "--set", "training.learning_rate=1e30")
    assert (done.status, done.document["status"], done.document["steps"]) == (0, "completed", 5)
    directory = Path(done.document["run"])
    lines = [json.loads(line) for line in (directory / "steps.jsonl").read_text().splitlines()]
    broken = [line for line in lines if line.get("nonfinite")]
    assert broken
    assert broken[-1]["loss"] is None
    assert broken[-1]["nonfinite"]["loss"] == "NaN"
    assert "nan" in {event.kind for event in records.events(directory)}
    last = list(records.steps(directory))[-1]
    assert last.loss != last.loss


def test_a_crash_of_the_training_program_is_exit_1_with_its_cause(shell: Any, tiny: Path, tmp_path: Path) -> None:
    import numpy as np

    np.save(tmp_path / "corpus.npy", np.full(10_000, 999, dtype=np.int32))
    done = shell("run", tiny, "--no-check", "--json", "--set", "data.source=tokens", "--set", "data.path=corpus.npy")
    assert (done.status, done.document["status"], done.document["steps"]) == (1, "failed", 0)
    assert done.document["failure"]["kind"] == "error"
    assert "contains token 999, expected ids below vocab_size 128" in done.document["failure"]["message"]
    directory = Path(done.document["run"])
    log = (directory / done.document["failure"]["file"]).read_text().splitlines()
    assert "contains token 999" in log[done.document["failure"]["line"] - 1]


def test_a_failed_run_ends_with_its_cause_its_last_lines_and_a_command(shell: Any, tiny: Path, tmp_path: Path) -> None:
    import numpy as np

    np.save(tmp_path / "corpus.npy", np.full(10_000, 999, dtype=np.int32))
    done = shell("run", tiny, "--name", "bad", "--set", "data.source=tokens", "--set", "data.path=corpus.npy")
    assert done.status == 1
    verdict, cause, head, *lines, way_on = done.out.splitlines()
    assert verdict == "verdict: FAIL  runs/bad"
    assert cause.startswith("failed after 0 steps: error: ValueError: ")
    assert head == "last lines of runs/bad/logs/node0.log:"
    assert "contains token 999" in lines[-1]
    assert len(done.out.splitlines()) < 24
    assert way_on == "next: steelyard check runs/bad"


def test_a_run_that_was_stopped_by_a_limit_ends_with_the_option_that_allows_more(shell: Any, tiny: Path) -> None:
    words = ("--set", "training.steps=100000", "--name", "late", "--time-limit", "5", "--no-check")
    done = shell("run", tiny, *words)
    assert done.status == 3
    assert "training took longer than 5 s" in done.err
    assert done.err.splitlines()[-1].startswith("next: --time-limit SECONDS")


def test_a_token_file_is_trained_on(shell: Any, tiny: Path, tmp_path: Path) -> None:
    import numpy as np

    np.save(tmp_path / "corpus.npy", np.tile(np.arange(100, dtype=np.uint16), 200))
    settings = ("--set", "data.source=tokens", "--set", "data.path=corpus.npy", "--set", "training.steps=20")
    done = shell("run", tiny, "--no-check", "--json", *settings)
    losses = [step.loss or 0.0 for step in records.steps(Path(done.document["run"]))]
    assert losses[-1] < losses[0] - 0.5


def test_names_and_places_of_runs(shell: Any, tiny: Path, tmp_path: Path) -> None:
    one_step = ("--no-check", "--json", "--set", "training.steps=1")
    named = shell("run", tiny, "--out", "kept", "--name", "mine", *one_step)
    assert named.document["run"] == str(tmp_path / "kept" / "mine")
    elsewhere = shell("run", tiny, "--name", "other", *one_step, STEELYARD_RUNS=str(tmp_path / "env"))
    assert elsewhere.document["run"] == str(tmp_path / "env" / "other")
    assert shell("run", tiny, "--out", "kept", "--name", "mine", *one_step).status == 2


def test_a_gpu_this_machine_lacks_is_not_replaced_by_its_cpu(shell: Any, tiny: Path) -> None:
    done = shell("run", tiny, "--no-check", "--json", "--gpu", "mi300x", "--gpus", "1")
    assert done.status == 3
    assert "the platform needs 1 x mi300x, but this machine has" in done.document["error"]["message"]
    assert not Path("runs").exists()


def test_progress_goes_to_standard_error(shell: Any, tiny: Path) -> None:
    done = shell("run", tiny, "--no-check")
    assert "recording runs/" in done.err
    assert "5/5  loss " in done.err
    assert "tokens/s per GPU" in done.err
    assert done.out.startswith("completed: 5 steps in runs/")


@pytest.mark.quick
def test_an_unreadable_run_is_listed_as_such(cli: Any) -> None:
    broken = Path("runs/broken")
    broken.mkdir(parents=True)
    (broken / "run.json").write_text("{")
    (listed,) = cli("runs", "list", "--json").document["runs"]
    assert (listed["status"], listed["steps"]) == ("unreadable", None)
    assert "broken/run.json cannot be read" in listed["error"]


@pytest.mark.quick
def test_a_directory_that_is_no_run_does_not_hide_the_others(cli: Any) -> None:
    for name, content in (("deep", "[" * 100_000), ("list", "[]")):
        (Path("runs") / name).mkdir(parents=True)
        (Path("runs") / name / "run.json").write_text(content)
    assert {run["status"] for run in cli("runs", "list", "--json").document["runs"]} == {"unreadable"}
    assert cli("runs", "show", "x" * 300, "--json").status == 2


def test_ranks_of_the_surrounding_job_are_not_taken_for_ours(shell: Any, tiny: Path) -> None:
    words = ("run", tiny, "--no-check", "--json", "--set", "training.steps=1")
    assert shell(*words, RANK="1", WORLD_SIZE="2", LOCAL_RANK="1").status == 0


def test_a_run_outlives_the_reader_of_its_progress(tiny: Path) -> None:
    command = [sys.executable, "-m", "steelyard", "run", str(tiny), "--no-check", "--name", "alone"]
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=write, check=False)
    os.close(write)
    assert done.returncode == 0
    assert records.load("runs/alone").status == "completed"


@pytest.mark.parametrize(
    ("option", "kind", "says"),
    [
        ("--time-limit", "time_limit", "training took longer than 1 s"),
        ("--first-step-within", "stall", "no step within 1 s"),
    ],
)
def test_a_run_here_keeps_its_limits_too(shell: Any, tiny: Path, option: str, kind: str, says: str) -> None:
    done = shell("run", tiny, "--set", "training.steps=100000", "--name", "late", option, "1", "--json")
    assert done.status == 3, done.out + done.err
    assert (done.document["error"]["key"], done.document["failure"]["kind"]) == (kind, kind)
    assert says in done.document["error"]["message"]
    assert records.load("runs/late").status == "failed"
