"""Patterns of healthy public logs that were failed once; the lines are written to their formats."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from steelyard import records

Cli = Callable[..., Any]


def judged(cli: Cli, path: Path, lines: list[str], *options: str) -> tuple[Path, dict[str, dict[str, Any]]]:
    path.write_text("\n".join(lines) + "\n")
    run = Path(cli("ingest", path, *options, "--json").document["run"])
    return run, {each["check"]: each for each in cli("check", run, "--json").document["findings"]}


def test_nemo_bars_without_a_terminal_are_read_with_the_digits_of_dllogger(cli: Cli, tmp_path: Path) -> None:
    lines = []
    for at in range(20):
        bar = f"Epoch 0: : {5 * (at + 1):3d}%|##########| {at + 1}/20 [00:{at + 1:02d}<00:01, v_num=None"
        before, after = (
            f", reduced_train_loss={12.9 - each / 10:.2f}, global_step={each}.000,"
            f" consumed_samples={64 * (each + 1)}.0, train_step_timing in s=2.000]"
            for each in (max(at - 1, 0), at)
        )
        record = (
            f"DLL 2026-06-11 05:14:{at:02d}.562847 - {at} reduced_train_loss : {12.9 - at / 10:.6f}  lr : 1e-05  "
            f"global_step : {at}.0  consumed_samples : {64.0 * (at + 1)}  grad_norm : 14.85  "
            "train_step_timing in s : 2.0 "
        )
        lines.append(f"{bar}{before}{bar}{after}{record}")
    run, findings = judged(cli, tmp_path / "nemo.log", [*lines, "`Trainer.fit` stopped: `max_steps=20` reached."])
    steps = list(records.steps(run))
    assert [step.step for step in steps] == list(range(1, 21))
    assert (steps[0].loss, steps[0].grad_norm, steps[1].loss) == (12.9, 14.85, 12.8)
    assert findings["completed"]["status"] == "pass"


def test_nemo_bars_whose_blocks_were_removed_are_read(cli: Cli, tmp_path: Path) -> None:
    lines = []
    for at in range(20):
        loss, samples = f"reduced_train_loss={12 - at / 10:.2f}", f"consumed_samples={64 * (at + 1)}.0"
        values = f"{loss}, global_step={at}.000, {samples}, train_step_timing in s=2.000"
        lines.append(f"Epoch 0:  {5 * (at + 1)}% {at + 1}/20 [00:32<07:34, 2.00s/it, v_num=None, {values}]")
    run, findings = judged(cli, tmp_path / "nemo.log", [*lines, "`Trainer.fit` stopped: `max_steps=20` reached."])
    assert [step.loss for step in records.steps(run)] == [pytest.approx(12 - at / 10) for at in range(20)]
    assert findings["completed"]["status"] == "pass"


def test_a_negative_step_time_is_an_error_of_the_timer(cli: Cli, tmp_path: Path) -> None:
    """NeMo 2.0 printed 13.75 and then -12.71 where a validation began."""
    times = [0.5] * 8 + [13.75, -12.71] + [0.5] * 20
    lines = [
        f"Training epoch 0, iteration {at}/29 | lr: 1.499e-07 | consumed_samples: {64 * (at + 1)} |"
        f" global_batch_size: 64 | global_step: {at} | reduced_train_loss: {10.84 - at / 100:.2f} |"
        f" train_step_timing in s: {seconds}"
        for at, seconds in enumerate(times)
    ]
    _, findings = judged(cli, tmp_path / "nemo.log", [*lines, "`Trainer.fit` stopped: `max_steps=30` reached."])
    identity = findings["throughput_identity"]
    assert (identity["status"], identity["code"]) == ("unknown", "step_time_not_positive")


def titan(rank: int, number: int, loss: float, norm: str = "1.0000", second: int | None = None) -> str:
    second = number if second is None else second
    return (
        f"[rank{rank}]:[titan] 2026-01-20 10:{second // 60:02d}:{second % 60:02d},000 - root - INFO - step: {number:2d}"
        f"  loss: {loss:7.4f}  grad_norm: {norm}  memory: 10.00GiB(12.64%)  tps: 4,096  tflops: 30.00  mfu: 3.03%"
    )


@pytest.mark.parametrize("lossy", [0, 3])
def test_pipeline_stages_without_the_loss_do_not_replace_it(cli: Cli, tmp_path: Path, lossy: int) -> None:
    lines = [
        titan(rank, number, 12 - number / 20 if rank == lossy else -4.0) for number in range(1, 31) for rank in range(4)
    ]
    run, findings = judged(cli, tmp_path / "titan.log", lines)
    losses = [step.loss for step in records.steps(run)]
    assert losses == [pytest.approx(12 - number / 20) for number in range(1, 31)]
    assert findings["loss_finite"]["status"] == "pass"
    assert findings.get("loss_floor", {}).get("status") != "fail"


def test_one_gradient_norm_that_overflows_is_shown_and_many_fail(cli: Cli, tmp_path: Path) -> None:
    once = [titan(0, number, 12 - number / 20, "   inf" if number == 1 else "1.0") for number in range(1, 31)]
    _, findings = judged(cli, tmp_path / "once.log", once)
    assert (findings["grad_norm_finite"]["status"], findings["grad_norm_finite"]["code"]) == (
        "unknown",
        "grad_norm_overflowed",
    )
    often = [titan(0, number, 12 - number / 20, "   inf" if number % 2 else "1.0") for number in range(1, 31)]
    assert judged(cli, tmp_path / "often.log", often)[1]["grad_norm_finite"]["status"] == "fail"
    nan = [titan(0, number, 12 - number / 20, "   nan" if number == 1 else "1.0") for number in range(1, 31)]
    assert judged(cli, tmp_path / "nan.log", nan)[1]["grad_norm_finite"]["status"] == "fail"


def test_a_pause_between_lines_of_a_log_without_step_times_is_no_stall(cli: Cli, tmp_path: Path) -> None:
    lines = [titan(0, number, 12 - number / 20, second=number + (60 if number > 20 else 0)) for number in range(1, 41)]
    assert judged(cli, tmp_path / "pause.log", lines)[1]["stall"]["status"] == "unknown"
