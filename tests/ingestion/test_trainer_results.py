"""Results of the Hugging Face Trainer and of tools based on it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from steelyard import records

Cli = Callable[..., Any]


def state(step: int = 40, steps: int = 40, ended: bool = True, **others: Any) -> dict[str, Any]:
    history: list[dict[str, Any]] = [
        {"epoch": at / 20, "grad_norm": 0.5, "learning_rate": 1e-4, "loss": 3 - at / 20, "step": at}
        for at in (1, *range(10, step + 1, 10))
    ]
    history.insert(3, {"epoch": 1.0, "eval_loss": 2.5, "eval_runtime": 3.0, "step": 20})
    if ended:
        history.append({"epoch": step / 20, "train_loss": 2.0, "train_runtime": 88.0, "step": step})
    return {"global_step": step, "max_steps": steps, "logging_steps": 10, "train_batch_size": 2, **others} | {
        "log_history": history
    }


def ingested(cli: Cli, path: Path, *options: Any) -> dict[str, Any]:
    done = cli("ingest", path, *options, "--json")
    assert done.status == 0, done.out
    document: dict[str, Any] = done.document
    return document


def test_the_state_of_a_trainer_has_every_record(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "trainer_state.json"
    path.write_text(json.dumps(state(), indent=2))
    made = ingested(cli, path)
    assert (made["framework"], made["dialect"], made["status"]) == ("hf-trainer", "trainer_state", "completed")
    steps = list(records.steps(made["run"]))
    assert [(step.step, step.steps_covered, step.loss) for step in steps] == [
        (1, 1, 2.95),
        (10, 9, 2.5),
        (20, 10, 2.0),
        (30, 10, 1.5),
        (40, 10, 1.0),
    ]
    lines = path.read_text().splitlines()
    assert [lines[step.source.line - 1].strip() for step in steps if step.source][-1] == '"step": 40'
    events = [(event.kind, event.step) for event in records.events(Path(made["run"]))]
    assert events == [("eval", 21), ("finished", 40)]
    judged = cli("check", made["run"], "--json").document
    found = {finding["check"]: finding["status"] for finding in judged["findings"]}
    assert (judged["verdict"], found["completed"], found["first_loss"]) == ("pass", "pass", "unknown")
    assert "loss_floor" in judged["not_applicable"]


def test_the_state_of_a_checkpoint_shows_no_end(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "trainer_state.json").write_text(json.dumps(state(step=30, ended=False)))
    made = ingested(cli, tmp_path / "trainer_state.json")
    judged = cli("check", made["run"], "--json").document
    (completed,) = (finding for finding in judged["findings"] if finding["check"] == "completed")
    assert (judged["verdict"], completed["code"]) == ("unknown", "ended_without_evidence")


def test_a_training_that_stopped_early_is_complete(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "trainer_state.json").write_text(json.dumps(state(step=30)))
    made = ingested(cli, tmp_path / "trainer_state.json")
    assert cli("check", made["run"], "--json").document["verdict"] == "pass"


def test_a_state_with_nan_and_a_broken_record_is_read(cli: Cli, tmp_path: Path) -> None:
    content = state()
    content["log_history"][1]["loss"] = float("nan")
    content["log_history"][2]["step"] = "twenty"
    (tmp_path / "trainer_state.json").write_text(json.dumps(content))
    made = ingested(cli, tmp_path / "trainer_state.json")
    steps = list(records.steps(made["run"]))
    assert [step.step for step in steps] == [1, 10, 30, 40]
    assert steps[1].nonfinite() == ("loss",)
    assert [event.kind for event in records.events(Path(made["run"]))].count("unread_line") == 1


def test_another_json_is_not_a_state(cli: Cli, tmp_path: Path) -> None:
    for number, text in enumerate(('{"log_history": 1, "global_step": 1}', '{"log_history": []}', "[]", "{")):
        (tmp_path / f"{number}.json").write_text(text)
        refused = cli("ingest", tmp_path / f"{number}.json", "--json")
        assert (refused.status, refused.document["error"]["key"]) == (2, "PATH")


def test_the_log_of_llama_factory_has_steps_and_times(cli: Cli, tmp_path: Path) -> None:
    rows = [
        {
            "current_steps": at,
            "total_steps": 40,
            "loss": 3 - at / 20,
            "lr": 1e-4,
            "epoch": at / 20,
            "elapsed_time": clock,
        }
        for at, clock in ((10, "0:00:50"), (20, "0:01:30"), (30, "0:02:10"), (40, "0:02:50"))
    ]
    evaluation = {"current_steps": 20, "total_steps": 40, "eval_loss": 2.4, "elapsed_time": "0:01:40"}
    ended = {"current_steps": 40, "total_steps": 40, "epoch": 2.0, "elapsed_time": "0:02:51"}
    lines = [*rows[:2], evaluation, *rows[2:], ended]
    (tmp_path / "trainer_log.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    made = ingested(cli, tmp_path / "trainer_log.jsonl")
    assert (made["framework"], made["dialect"], made["status"]) == ("hf-trainer", "trainer_log", "completed")
    steps = list(records.steps(made["run"]))
    assert [(step.step, step.steps_covered, step.step_time_s) for step in steps] == [
        (10, 10, 5.0),
        (20, 10, 4.0),
        (30, 10, 4.0),
        (40, 10, 4.0),
    ]
    assert [(event.kind, event.step) for event in records.events(Path(made["run"]))] == [("eval", 21), ("finished", 40)]


@pytest.mark.parametrize("absent", [{}, {"loss": None, "eval_loss": None, "lr": None}])
def test_a_training_that_ends_between_two_records_is_complete(
    cli: Cli, tmp_path: Path, absent: dict[str, None]
) -> None:
    rows = [{"current_steps": at, "total_steps": 43, "loss": 3 - at / 20, "eval_loss": None} for at in (10, 20, 30, 40)]
    ended = {"current_steps": 43, "total_steps": 43, "percentage": 100.0, **absent}
    log = tmp_path / "trainer_log.jsonl"
    log.write_text("\n".join(map(json.dumps, [*rows, ended])) + "\n")
    made = ingested(cli, log)
    assert (made["steps"], made["status"]) == (4, "completed")
    log.write_text("\n".join(map(json.dumps, rows)) + "\n")
    assert cli("ingest", log, "--name", "cut", "--json").document["status"] == "interrupted"


def test_the_log_of_ms_swift_is_read(cli: Cli, tmp_path: Path) -> None:
    rows = [
        {"loss": 2.0, "grad_norm": 1.5, "learning_rate": 1e-4, "global_step/max_steps": f"{at}/20", "memory(GiB)": 16.4}
        for at in (1, 5, 10, 15, 20)
    ]
    ended = {"train_runtime": 29.8, "train_loss": 2.0, "epoch": 1.0, "global_step/max_steps": "20/20"}
    last = {"last_model_checkpoint": "out/checkpoint-20", "memory": 16.5}
    (tmp_path / "logging.jsonl").write_text("\n".join(map(json.dumps, [*rows, ended, last])))
    made = ingested(cli, tmp_path / "logging.jsonl")
    assert (made["steps"], made["status"]) == (5, "completed")
    first = next(records.steps(made["run"]))
    assert (first.step, first.memory_gib, first.memory_kind) == (1, 16.4, "torch_reserved_peak")


def test_progress_without_a_loss_is_refused(cli: Cli, tmp_path: Path) -> None:
    rows = [json.dumps({"current_steps": at, "total_steps": 50, "percentage": 2.0 * at}) for at in range(1, 51)]
    (tmp_path / "trainer_log.jsonl").write_text("\n".join(rows))
    refused = cli("ingest", tmp_path / "trainer_log.jsonl", "--json")
    assert refused.status == 2
    assert "no training loss" in refused.document["error"]["message"]
    assert not (tmp_path / "runs").exists() or not list((tmp_path / "runs").iterdir())
