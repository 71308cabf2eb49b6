"""What a log lacks is named, with the option that adds it, and that option is enough."""

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., Any]

TITAN = (
    "[rank0]:[titan] 2026-02-03 10:{minute:02d}:{second:02d},074 - root - INFO - step: {at:2d}  loss: {loss:7.4f}  "
    "grad_norm:  1.2004  memory: 41.10GiB(51.95%)  tps: 7,034  tflops: 407.31  mfu: 41.18%"
)
MEGATRON = (
    " iteration {at:8d}/      40 | consumed samples: {samples:12d} | elapsed time per iteration (ms): 512.4 |"
    " learning rate: 1.000000E-04 | global batch size:    16 | lm loss: {loss:.6E} | loss scale: 1.0 |"
    " grad norm: 0.912 | number of skipped iterations:   0 | number of nan iterations:   0 |"
)


def titan(path: Path, first: int = 1) -> Path:
    steps = range(first, first + 30)
    lines = (TITAN.format(at=at, minute=at // 60, second=at % 60, loss=11.9 - 0.1 * at) for at in steps)
    path.write_text("\n".join(lines) + "\n")
    return path


def megatron(path: Path) -> Path:
    lines = (MEGATRON.format(at=at, samples=16 * at, loss=10.8 - 0.1 * at) for at in range(1, 41))
    path.write_text("\n".join(lines) + "\n")
    return path


def ingested(cli: Cli, path: Path, *options: str) -> tuple[str, str, str]:
    """What `ingest` lists as missing, what it says to add, and what `check` prints."""
    done = cli("ingest", path, "--name", f"run{len(options)}", *options)
    assert done.status == 0, done.err
    missing = next((line.split(maxsplit=1)[1] for line in done.out.splitlines() if line.startswith("  missing")), "")
    command = done.out.partition("add with")[2].partition("next: ")[0].replace("\\\n", " ")
    return missing, " ".join(command.split()), cli("check", f"run{len(options)}").out


def settings(*pairs: str) -> list[str]:
    return [word for pair in pairs for word in ("--set", pair)]


def test_a_stated_dtype_is_enough_for_the_mfu_of_a_named_gpu(cli: Cli, tmp_path: Path) -> None:
    log = titan(tmp_path / "titan.log")
    missing, command, judged = ingested(cli, log, "--gpu", "h100", "--gpus", "8")
    assert "precision" in missing
    assert "--set precision.dtype=bf16" in command
    assert "  MFU unknown: precision not recorded; ingest with --set precision.dtype=bf16\n" in judged
    stated = ("--gpu", "h100", "--gpus", "8", "--set", "precision.dtype=bf16")
    missing, _, judged = ingested(cli, log, *stated)
    assert "precision" not in missing
    assert "MFU 41.2% (TFLOP/s as reported)" in judged
    assert "MFU unknown" not in judged


def test_a_stated_dtype_does_not_hide_fp8_in_the_log(cli: Cli, tmp_path: Path) -> None:
    log = titan(tmp_path / "titan.log")
    head = "[rank0]:[titan] 2026-02-03 09:59:00,074 - root - INFO - Float8 tensorwise scaled training active\n"
    log.write_text(head + log.read_text())
    _, _, judged = ingested(cli, log, "--gpu", "h100", "--gpus", "8", "--set", "precision.dtype=bf16")
    assert "MFU 20.6% (TFLOP/s as reported)" in judged  # of the fp8 peak


def test_a_loss_curve_of_a_csv_needs_no_precision(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "curve.csv").write_text("step,loss\n1,3.0\n2,2.9\n")
    missing, *_ = ingested(cli, tmp_path / "curve.csv")
    assert "precision" not in missing


def test_the_absent_dimensions_of_a_model_are_named(cli: Cli, tmp_path: Path) -> None:
    log = titan(tmp_path / "titan.log")
    missing, command, _ = ingested(cli, log)
    assert missing.endswith(", model")
    assert "--set model.preset=NAME" in command
    shape = settings("model.architecture=llama", "model.num_layers=12", "model.hidden_size=768")
    missing, command, _ = ingested(cli, log, *shape, *settings("model.num_attention_heads=12"))
    assert missing.endswith("model.ffn_hidden_size, model.num_key_value_heads, model.head_dim, vocabulary")
    keys = ("ffn_hidden_size", "num_key_value_heads", "head_dim", "vocab_size")
    assert command.endswith(" ".join(f"--set model.{key}=N" for key in keys))


def test_what_follows_of_a_gpt_is_not_asked_for(cli: Cli, tmp_path: Path) -> None:
    shape = ("model.architecture=gpt", "model.num_layers=12", "model.hidden_size=768", "model.num_attention_heads=12")
    log = titan(tmp_path / "titan.log")
    missing, *_ = ingested(cli, log, *settings(*shape))
    assert missing.endswith("model.ffn_hidden_size, vocabulary")
    cli("ingest", log, "--name", "whole", *settings(*shape, "model.ffn_hidden_size=3072", "model.vocab_size=50304"))
    manifest = Path("runs/whole/run.json").read_text()
    assert '"model.head_dim": "derived"' in manifest
    assert '"model.num_key_value_heads": "derived"' in manifest


def test_a_model_that_the_formula_does_not_cover_is_not_asked_for(cli: Cli) -> None:
    traps = Path(__file__).parents[1] / "traps" / "megatron"
    log = traps / "clean-v0.12-arguments-validation-memory.log"
    none = "  num_experts ..................................... None"
    text = log.read_text()
    assert none in text
    Path("experts.log").write_text(text.replace(none, none.replace("None", "8")))
    missing, *_ = ingested(cli, Path("experts.log"))
    assert "model" not in missing


@pytest.mark.parametrize(
    ("added", "message"),
    [
        ((), "vocabulary, parallelism.tensor_parallel_size, model.hidden_size and init std not recorded"),
        (
            ("model.vocab_size=50257", "parallelism.tensor_parallel_size=1", "model.hidden_size=1024"),
            "init std not recorded; ingest with --set training.init_method_std=N",
        ),
    ],
)
def test_the_first_loss_names_exactly_what_is_missing(
    cli: Cli, tmp_path: Path, added: tuple[str, ...], message: str
) -> None:
    *_, judged = ingested(cli, megatron(tmp_path / "train.log"), *settings(*added))
    assert f"expected first loss unknown: {message}" in judged


def test_a_log_without_step_1_is_not_asked_for_a_model(cli: Cli, tmp_path: Path) -> None:
    *_, judged = ingested(cli, titan(tmp_path / "titan.log", first=11))
    assert "first_loss           loss of step 1 not recorded" in judged


def test_a_missing_rate_comes_with_its_reason(cli: Cli, tmp_path: Path) -> None:
    log = megatron(tmp_path / "train.log")
    *_, judged = ingested(cli, log)
    assert "  tokens/s unknown: sequence length not recorded; ingest with --set training.sequence_length=N\n" in judged
    *_, judged = ingested(cli, log, *settings("training.sequence_length=2048"))
    assert "  tokens/s unknown: GPU count unknown; ingest with --gpus N\n" in judged
    *_, judged = ingested(cli, log, "--gpus", "8", *settings("training.sequence_length=2048"))
    assert "tokens/s unknown" not in judged


def test_the_command_that_adds_can_be_pasted(cli: Cli, tmp_path: Path) -> None:
    _, command, _ = ingested(cli, titan(tmp_path / "titan.log"), "--gpu", "h100", "--gpus", "8")
    for placeholder, value in (("NAME", "llama3.1-8b"), ("=N", "=128")):
        command = command.replace(placeholder, value)
    assert cli(*shlex.split(command)[1:]).status == 0


def test_reported_tflops_without_a_model_are_checked_against_the_rate(cli: Cli, tmp_path: Path) -> None:
    ingested(cli, titan(tmp_path / "titan.log"), "--gpu", "h100", "--gpus", "8")
    assert "reported TFLOP/s are 57.9 GFLOP per token at every step" in cli("check", "run4", "-v").out
