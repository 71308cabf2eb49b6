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
    advice = "add --columns reported_tokens_per_s_per_gpu=tokens_per_sec_per_gpu,step_time_s=step_time"
    printed = " ".join(cli("ingest", "curve.csv").out.split())
    assert "unread columns: tokens_per_sec_per_gpu, step_time, host temperature;" in printed
    assert advice in printed
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
        ("a,b\n1,2\n", [], "columns of step and loss not found"),
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


def earlier_result(path: Path, times: int = 1, **more: Any) -> Path:
    """A result of the suite's earlier form: step times without losses, and a rate that many times too high."""
    seconds = [31.402, *(9.6 + 0.013 * at for at in range(11))]
    average = sum(seconds[1:]) / len(seconds[1:])
    rate = 64 * 4096 / average * times
    content = {
        "platform": "amd",
        "gpu_info": {"device_count": 8, "device_name": "AMD Instinct MI300X", "software_stack": "rocm"},
        "timestamp": "2026-01-06T10:02:11.104221",
        "training_config": {"max_steps": 12, "global_batch_size": 64, "sequence_length": 4096, "num_gpus": 8},
        "performance_metrics": {
            "total_steps": 12,
            "avg_step_time_seconds": round(average, 3),
            "tokens_per_second": round(rate, 3),
            "tokens_per_second_per_gpu": round(rate / 8, 3),
        },
        "raw_step_times": [round(time, 3) for time in seconds],
        "source": "primus_log_extraction",
        "memory_metrics": {"avg_memory_allocated_gb": 91.23, "peak_memory_allocated_gb": 91.23},
        **more,
    }
    path.write_text(json.dumps(content, indent=2))
    return path


def test_the_suite_s_earlier_result_is_read_with_its_step_times(cli: Cli, tmp_path: Path) -> None:
    made = cli("ingest", earlier_result(tmp_path / "benchmark_rocm_llama.json"), "--json").document
    assert (made["dialect"], made["framework"], made["steps"]) == ("suite_json", "primus", 12)
    run = records.load(made["run"])
    assert [step.step_time_s for step in records.steps(run.directory)][:2] == [31.402, 9.6]
    assert (run.manifest.platform.gpu, run.manifest.platform.world_size) == ("mi300x", 8)
    judged = cli("check", made["run"], "--json").document
    assert judged["figures"]["tokens_per_s_per_gpu"] == pytest.approx(64 * 4096 / 8 / 9.665, rel=1e-3)
    assert finding(judged, "throughput_identity")["status"] == "pass"
    lost = finding(judged, "loss_finite")
    assert (lost["status"], judged["verdict"]) == ("unknown", "unknown")  # the result has no losses


def test_a_rate_that_its_own_batch_and_step_times_contradict_is_named_with_both_figures(
    cli: Cli, tmp_path: Path
) -> None:
    made = cli("ingest", earlier_result(tmp_path / "result.json", times=4), "--json").document
    found = finding(cli("check", made["run"], "--json").document, "throughput_identity")
    assert (found["code"], found["status"]) == ("summary_disagrees", "fail")
    assert found["observed"] / found["expected"] == pytest.approx(4, rel=0.01)
    assert f"{found['observed']:,.1f}" in found["message"]
    assert f"{found['expected']:,.1f}" in found["message"]
    line = (tmp_path / "result.json").read_text().splitlines()[found["evidence"]["line"] - 1]
    assert "tokens_per_second_per_gpu" in line


def test_losses_of_an_earlier_result_are_read_and_lists_of_another_length_left_out(cli: Cli, tmp_path: Path) -> None:
    more = {"raw_loss_values": [11.9 - 0.1 * at for at in range(12)], "raw_learning_rates": [3e-4] * 11}
    made = cli("ingest", earlier_result(tmp_path / "result.json", **more), "--json").document
    assert [step.loss for step in records.steps(made["run"])][:2] == pytest.approx([11.9, 11.8])
    left_out = [event.message for event in records.events(made["run"]) if event.kind == "left_out"]
    assert left_out == ["raw_learning_rates has 11 values for 12 steps, so it is ignored"]
    empty = earlier_result(tmp_path / "empty.json", raw_loss_values=[], raw_learning_rates=[])
    assert cli("ingest", empty, "--json").document["steps"] == 12


def test_the_suite_s_nvidia_sample_is_named_as_degenerate(cli: Cli) -> None:
    made = cli("ingest", sample("tprimat_2026-02-02_train_nvd_nemo_llama.json"), "--json").document
    assert (made["framework"], made["steps"]) == ("nemo", 500)
    judged = cli("check", made["run"], "--json").document
    assert finding(judged, "loss_floor")["code"] == "loss_of_memorized_data"
    assert judged["figures"]["memory_kind"] == "torch_allocated_after_step"
