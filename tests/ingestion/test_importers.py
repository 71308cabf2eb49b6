"""Results that are no logs become runs too."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from steelyard import records
from steelyard.ingestion.importers import FORMATS

SHARED = Path(__file__).parents[3] / "shared" / "logs"

Cli = Callable[..., Any]


def finding(document: dict[str, Any], check: str) -> dict[str, Any]:
    return next(one for one in document["findings"] if one["check"] == check)


def test_the_table_of_formats_is_the_folder() -> None:
    folder = Path(__file__).parents[2] / "src" / "steelyard" / "ingestion" / "importers"
    assert {path.stem for path in folder.glob("*.py")} - {"__init__", "fields"} == set(FORMATS)


def test_columns_of_a_csv_are_named_by_the_user(cli: Cli, tmp_path: Path) -> None:
    rows = "".join(f"{step},{10 - step / 10:.3f},{2.5}\n" for step in range(1, 41))
    (tmp_path / "curve.csv").write_text(f"it,train loss,seconds\n{rows}")
    columns = "step=it,loss=train loss,step_time_s=seconds"
    made = cli("ingest", "curve.csv", "--columns", columns, "--set", "training.steps=40", "--json").document
    assert (made["steps"], made["status"], made["dialect"]) == (40, "completed", "csv")
    first = next(records.steps(made["run"]))
    assert (first.step, first.loss, first.step_time_s) == (1, 9.9, 2.5)
    assert first.source == records.Evidence("logs/curve.csv", 2)
    assert cli("check", made["run"]).status == 0


def test_columns_that_are_called_as_ours_need_not_be_named(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "curve.csv").write_text("step,loss,seconds,tokens_per_s_per_gpu,rate\n1,9.5,2.5,7,8\n2,9.0,2.5,7,8\n")

    def first(columns: str) -> records.Step:
        done = cli("ingest", "curve.csv", "--columns", columns, "--json")
        assert done.status == 0, done.out
        return next(records.steps(done.document["run"]))

    step = first("step_time_s=seconds")
    assert (step.step, step.loss, step.step_time_s, step.reported_tokens_per_s_per_gpu) == (1, 9.5, 2.5, 7.0)
    assert first("reported_tokens_per_s_per_gpu=rate").reported_tokens_per_s_per_gpu == 8.0  # what is named counts
    step = first("step_time_s=loss")
    assert (step.loss, step.step_time_s) == (None, 9.5)  # a column is one thing


def test_a_column_is_ours_in_any_case(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "curve.csv").write_text("Step,Loss,LOSS,Step_Time_S\n1,9.5,3.0,2.5\n2,9.0,3.0,2.5\n")
    made = cli("ingest", "curve.csv", "--json").document
    first = next(records.steps(made["run"]))
    assert (first.step, first.loss, first.step_time_s) == (1, 9.5, 2.5)
    assert [notice["kind"] for notice in made["notices"]] == ["unread_columns"]
    assert made["notices"][0]["message"].startswith("LOSS;")  # a loss is taken once, and the other is not lost unseen


def test_columns_that_are_not_read_are_named_with_what_they_may_be(cli: Cli, tmp_path: Path) -> None:
    header = "step,loss,tokens_per_sec_per_gpu,step_time,host temperature"
    (tmp_path / "curve.csv").write_text(f"{header}\n1,9.5,7,2.5,40\n2,9.0,7,2.5,40\n")
    (tmp_path / "plain.csv").write_text("step,loss\n1,9.5\n2,9.0\n")
    said = "--columns reported_tokens_per_s_per_gpu=tokens_per_sec_per_gpu,step_time_s=step_time would say"
    printed = " ".join(cli("ingest", "curve.csv").out.split())
    assert "unread columns: tokens_per_sec_per_gpu, step_time, host temperature;" in printed
    assert said in printed
    made = cli("ingest", "curve.csv", "--name", "two", "--json").document
    assert [notice["kind"] for notice in made["notices"]] == ["unread_columns"]
    assert next(records.steps(made["run"])).step_time_s is None  # offered, not taken
    assert cli("ingest", "plain.csv", "--name", "three", "--json").document["notices"] == []


def test_a_row_that_cannot_be_read_is_said_with_its_line(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "curve.csv").write_text("step,loss\n1,2.5\n2,two\n3,nan\n4,\n")
    made = cli("ingest", "curve.csv", "--json").document
    (event,) = (event for event in records.events(made["run"]) if event.kind == "unread_line")
    assert event.source == records.Evidence("logs/curve.csv", 3)
    steps = list(records.steps(made["run"]))
    assert [step.step for step in steps] == [1, 3, 4]
    assert steps[1].loss != steps[1].loss
    assert steps[2].loss is None
    assert cli("check", made["run"]).status == 1


def test_json_lines_count_from_where_they_start(cli: Cli, tmp_path: Path) -> None:
    rows = [{"step": at, "loss": 5.0 - at / 10, "tokens_per_s_per_gpu": 100.0} for at in range(5)]
    (tmp_path / "curve.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = cli("ingest", "curve.jsonl", "--json").document["run"]
    steps = list(records.steps(run))
    assert [(step.step, step.reported_step) for step in steps] == [(at + 1, at) for at in range(5)]
    assert steps[0].reported_tokens_per_s_per_gpu == 100.0


@pytest.mark.parametrize(
    ("content", "options", "words"),
    [
        ("a,b\n1,2\n", [], "which column is the step"),
        ("a,b\n1,2\n", ["--columns", "step=a,loss=c"], "has no column 'c'"),
        ("", [], "has no row"),
        ("step,loss\n", [], "has no row"),
    ],
)
def test_a_table_that_does_not_say_what_it_is_is_one_sentence(
    cli: Cli, tmp_path: Path, content: str, options: list[str], words: str
) -> None:
    (tmp_path / "curve.csv").write_text(content)
    done = cli("ingest", "curve.csv", *options, "--json")
    assert done.status == 2
    assert words in done.document["error"]["message"]


def test_a_chart_of_weights_and_biases(cli: Cli, tmp_path: Path) -> None:
    names = ["Step", "my-run - lm loss", "my-run - lm loss__MIN", "my-run - lm loss__MAX", "my-run - iteration-time"]
    rows = "".join(f'"{at}","{9 - at / 10}","1","9","0.5"\n' for at in range(1, 31))
    (tmp_path / "wandb.csv").write_text(",".join(f'"{name}"' for name in names) + "\n" + rows)
    made = cli("ingest", "wandb.csv", "--json").document
    assert (made["dialect"], made["framework"], made["steps"]) == ("wandb_csv", "megatron", 30)
    first = next(records.steps(made["run"]))
    assert (first.loss, first.step_time_s) == (8.9, 0.5)


def test_a_chart_of_two_runs_asks_which(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "wandb.csv").write_text('"Step","a - loss","a - loss__MIN","b - loss","b - loss__MIN"\n1,2,2,3,3\n')
    done = cli("ingest", "wandb.csv", "--json")
    assert done.status == 2
    assert "2 runs" in done.document["error"]["message"]
    assert cli("ingest", "wandb.csv", "--columns", "step=Step,loss=b - loss", "--json").document["steps"] == 1


@pytest.mark.parametrize("folder", [False, True])
def test_event_files_of_tensorboard(cli: Cli, tmp_path: Path, folder: bool) -> None:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    writer = EventFileWriter(str(tmp_path / "tb"))
    for step in range(1, 31):
        values = {"lm loss": 10 - step / 10, "iteration-time": 0.25, "learning-rate": 1e-4, "noise": 1.0}
        for tag, value in values.items():
            writer.add_event(Event(step=step, summary=Summary(value=[Summary.Value(tag=tag, simple_value=value)])))
    writer.close()
    path = tmp_path / "tb" if folder else next((tmp_path / "tb").iterdir())
    made = cli("ingest", path, "--json").document
    assert (made["dialect"], made["framework"], made["steps"]) == ("tensorboard", "megatron", 30)
    steps = list(records.steps(made["run"]))
    assert [step.step for step in steps] == list(range(1, 31))
    assert steps[9].loss == pytest.approx(9.0)
    assert steps[9].step_time_s == 0.25


def sample(name: str) -> Path:
    path = SHARED / name
    if not path.exists():
        pytest.skip("the shared samples are not beside this checkout")
    return path


def test_the_suite_s_amd_sample_is_named_as_counting_data(cli: Cli) -> None:
    made = cli("ingest", sample("tprimat_2026-02-02_train_amd_prim_llama.json"), "--json").document
    assert (made["framework"], made["steps"], made["dialect"]) == ("primus", 500, "suite_json")
    manifest = records.load(made["run"]).manifest
    assert (manifest.platform.gpu, manifest.platform.world_size) == ("mi300x", 8)
    assert manifest.experiment.value("training.global_batch_size") == 64
    judged = cli("check", made["run"], "--json")
    floor = finding(judged.document, "loss_floor")
    assert judged.status == 0  # it says nothing about learning, and fails no test of throughput
    assert (floor["code"], floor["status"], floor["required"]) == ("loss_on_counting_floor", "unknown", False)
    left_out = [event.message for event in records.events(made["run"]) if event.kind == "left_out"]
    assert any("learning_rates has 499 values for 500 steps" in message for message in left_out)


def test_the_suite_s_nvidia_sample_is_named_as_degenerate(cli: Cli) -> None:
    made = cli("ingest", sample("tprimat_2026-02-02_train_nvd_nemo_llama.json"), "--json").document
    assert (made["framework"], made["steps"]) == ("nemo", 500)
    judged = cli("check", made["run"], "--json").document
    assert finding(judged, "loss_floor")["code"] == "loss_of_memorized_data"
    assert judged["figures"]["memory_kind"] == "torch_allocated_after_step"
