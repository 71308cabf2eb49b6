"""What stands under another name, or twice: losses, settings of DeepSpeed, plans of torchtitan."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from steelyard import records

Cli = Callable[..., Any]


def line(number: int, *fields: str) -> str:
    shown = "".join(f" {field} |" for field in fields)
    return (
        f" iteration {number:8d}/       4 | consumed samples: {number * 8:12d} |"
        " elapsed time per iteration (ms): 900.0 |"
        f" learning rate: 1.000E-04 | global batch size:     8 |{shown} loss scale: 1.0 | grad norm: 1.000 |"
        " number of skipped iterations:   0 | number of nan iterations:   0 |"
    )


def losses(cli: Cli, path: Path, lines: list[str]) -> list[float | None]:
    path.write_text("\n".join(lines) + "\n")
    made = cli("ingest", path, "--json").document
    return [step.loss for step in records.steps(Path(made["run"]))]


@pytest.mark.parametrize("label", ["lm loss", "lm_loss", "lm-loss", "loss"])
def test_a_loss_is_read_under_each_of_its_names(cli: Cli, tmp_path: Path, label: str) -> None:
    lines = [line(number, f"{label}: {11 - number / 8:.6E}") for number in range(1, 5)]
    assert losses(cli, tmp_path / "a.log", lines) == [10.875, 10.75, 10.625, 10.5]


def test_the_loss_of_the_model_is_preferred_to_the_total(cli: Cli, tmp_path: Path) -> None:
    lines = [line(number, "loss: 12.5", f"lm loss: {11 - number / 8:.6E}") for number in range(1, 5)]
    assert losses(cli, tmp_path / "a.log", lines)[0] == 10.875


def test_a_line_with_a_finite_loss_of_another_name_has_no_nan(cli: Cli, tmp_path: Path) -> None:
    lines = [line(number, f"reward loss: {11 - number / 8:.6E}") for number in range(1, 5)]
    assert losses(cli, tmp_path / "a.log", lines) == [None] * 4
    run = next((tmp_path / "runs").iterdir())
    findings = {each["check"]: each for each in cli("check", run, "--json").document["findings"]}
    assert findings["loss_finite"]["status"] == "unknown"


def test_a_loss_that_disappears_is_nan_even_beside_an_auxiliary_one(cli: Cli, tmp_path: Path) -> None:
    lines = [line(number, f"lm loss: {11 - number / 8:.6E}", "load_balancing_loss: 1.0E+00") for number in range(1, 3)]
    lines += [line(number, "load_balancing_loss: 1.0E+00") for number in range(3, 5)]
    path = tmp_path / "a.log"
    path.write_text("\n".join(lines) + "\n")
    made = cli("ingest", path, "--json").document
    rows = [json.loads(row) for row in (Path(made["run"]) / "steps.jsonl").open()]
    assert [row.get("nonfinite", {}).get("loss") for row in rows] == [None, None, "NaN", "NaN"]


def test_settings_that_deepspeed_prints_after_the_dump_do_not_count(cli: Cli, tmp_path: Path) -> None:
    dump = [
        "------------------------ arguments ------------------------",
        "  global_batch_size ............................... 8",
        "  seq_length ...................................... 1024",
        "  world_size ...................................... 64",
        "-------------------- end of arguments ---------------------",
        "[2024-05-01 10:00:00,000] [INFO] [config.py:1000:print]   world_size ................... 1",
        "[2024-05-01 10:00:00,000] [INFO] [config.py:1000:print]   global_batch_size ............ 1",
    ]
    path = tmp_path / "a.log"
    path.write_text("\n".join([*dump, *(line(number, "lm loss: 1.0E+01") for number in range(1, 5))]) + "\n")
    made = cli("ingest", path, "--json").document
    assert records.load(Path(made["run"])).manifest.platform.world_size == 64
    step = next(iter(records.steps(Path(made["run"]))))
    assert step.tokens_per_s_per_gpu == pytest.approx(8 * 1024 / 0.9 / 64)


TITAN = "[titan] 2026-04-18 22:15:{:02d},000 - root - INFO - "


def test_the_plan_of_torchtitan_is_read(cli: Cli, tmp_path: Path) -> None:
    lines = [
        "torchtitan version: 0.2.2 (0.0.0 means __version__ is not defined correctly).",
        "Building device mesh with parallelism: pp=2, dp_replicate=1, dp_shard=8, cp=1, tp=2, ep=4, etp=1",
        "CUDA capacity: NVIDIA H100 80GB HBM3 with 79.10GiB memory",
        "Trainer is initialized with local batch size 8, global batch size 128, gradient accumulation steps 2,"
        " sequence length 2048, total steps 20 (warmup 5)",
        "Training starts at step 1",
        *(
            f"step: {number:2d}  loss: {11 - number / 40:.5f}  grad_norm:  0.4000  memory: 10.00GiB(12.64%)"
            f"  tps: 4,096  tflops: 30.00  mfu: 3.03%"
            for number in (1, 10, 20)
        ),
        "Training completed",
    ]
    path = tmp_path / "a.log"
    path.write_text("".join(TITAN.format(at) + text + "\n" for at, text in enumerate(lines)))
    made = cli("ingest", path, "--json").document
    manifest = records.load(Path(made["run"])).manifest
    assert manifest.platform.world_size == 32
    stated = {
        "training.steps": 20,
        "training.global_batch_size": 128,
        "training.micro_batch_size": 8,
        "training.sequence_length": 2048,
        "training.warmup_steps": 5,
        "parallelism.pipeline_parallel_size": 2,
        "parallelism.tensor_parallel_size": 2,
        "parallelism.fsdp_size": 8,
    }
    assert {key: manifest.experiment.value(key) for key in stated} == stated
    findings = {each["check"]: each for each in cli("check", made["run"], "--json").document["findings"]}
    assert findings["completed"]["status"] == "pass"


def test_memory_that_deepspeed_prints_at_every_step_holds_until_the_last(cli: Cli, tmp_path: Path) -> None:
    lines = []
    for number in range(1, 5):
        lines.append(
            f"[2024-05-01 10:00:0{number},000] [INFO] [timer.py:260:stop] epoch=0/micro_step={number}/"
            f"global_step={number}, RunningAvgSamplesPerSec=8.8, CurrSamplesPerSec=8.9,"
            " MemAllocated=6.01GB, MaxMemAllocated=19.52GB"
        )
        lines.append(line(number, "lm loss: 1.0E+01"))
    path = tmp_path / "a.log"
    path.write_text("\n".join(lines) + "\n")
    made = cli("ingest", path, "--json").document
    at = [event.step for event in records.events(Path(made["run"])) if event.kind == "memory"]
    assert at == [1, 4]
    figures = cli("check", made["run"], "--json").document["figures"]
    assert (figures["memory_peak_gib"], figures["memory_kind"]) == (19.52, "torch_allocated_peak")


COMMAND = (
    "+ torchrun --nproc_per_node 8 --nnodes 2 --rdzv-id 7 pretrain_gpt.py --num-layers 32 --hidden-size 4096"
    " --num-attention-heads 32 --seq-length 4096 --global-batch-size 128 --bf16 --swiglu --train-iters 4"
    " --data-path 0.5 /data/a 0.5 /data/b"
)


def test_an_echoed_command_line_is_a_source_of_settings(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("\n".join([COMMAND, *(line(number, "lm loss: 1.0E+01") for number in range(1, 5))]) + "\n")
    manifest = records.load(Path(cli("ingest", path, "--json").document["run"])).manifest
    stated = {
        "model.num_layers": 32,
        "model.hidden_size": 4096,
        "model.architecture": "llama",
        "training.sequence_length": 4096,
        "precision.dtype": "bf16",
        "training.steps": 4,
        "data.path": "0.5 /data/a 0.5 /data/b",
    }
    assert {key: manifest.experiment.value(key) for key in stated} == stated
    assert manifest.platform.world_size == 16


@pytest.mark.parametrize("change", [(" --seq-length 4096", " --seq-length $SEQ"), ("pretrain_gpt", "convert")])
def test_a_command_that_does_not_tell_is_left_alone(cli: Cli, tmp_path: Path, change: tuple[str, str]) -> None:
    path = tmp_path / "a.log"
    lines = [COMMAND.replace(*change), *(line(number, "lm loss: 1.0E+01") for number in range(1, 5))]
    path.write_text("\n".join(lines) + "\n")
    manifest = records.load(Path(cli("ingest", path, "--json").document["run"])).manifest
    assert not manifest.experiment.states("model.num_layers")


def test_a_dump_counts_more_than_the_command_before_it(cli: Cli, tmp_path: Path) -> None:
    dump = [
        "------------------------ arguments ------------------------",
        "  seq_length ...................................... 1024",
        "-------------------- end of arguments ---------------------",
    ]
    path = tmp_path / "a.log"
    path.write_text("\n".join([COMMAND, *dump, *(line(number, "lm loss: 1.0E+01") for number in range(1, 5))]) + "\n")
    manifest = records.load(Path(cli("ingest", path, "--json").document["run"])).manifest
    assert manifest.experiment.value("training.sequence_length") == 1024
