"""Validation rows of Lightning's metrics.csv do not replace training rows."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from steelyard import records

Cli = Callable[..., Any]


def read(cli: Cli, path: Path, text: str) -> list[records.Step]:
    path.write_text(text)
    made = cli("ingest", path, "--json")
    assert (made.status, made.document["dialect"]) == (0, "lightning_csv"), made.out
    return list(records.steps(made.document["run"]))


def test_rows_of_a_validation_are_left_out(cli: Cli, tmp_path: Path) -> None:
    text = "epoch,step,train_loss,val_loss\n0,49,2.62,\n0,99,2.47,\n0,99,,2.39\n0,149,2.43,\n0,149,,2.35\n"
    steps = read(cli, tmp_path / "metrics.csv", text)
    assert [(step.step, step.reported_step, step.steps_covered, step.loss) for step in steps] == [
        (50, 49, 50, 2.62),
        (100, 99, 50, 2.47),
        (150, 149, 50, 2.43),
    ]
    assert steps[2].source == records.Evidence("logs/metrics.csv", 5)


def test_losses_of_a_step_come_before_means_of_an_epoch(cli: Cli, tmp_path: Path) -> None:
    header = "epoch,grad_norm,lr-AdamW,step,train_loss_epoch,train_loss_step,val_loss\n"
    rows = "0,,0.001,0,,,\n0,1.5,,0,,3.0,\n0,1.4,,1,,2.5,\n0,,,1,,,2.7\n0,,,1,2.75,,\n1,1.2,,2,,nan,\n"
    steps = read(cli, tmp_path / "fold1.csv", header + rows)
    assert [(step.step, step.loss, step.grad_norm) for step in steps[:2]] == [(1, 3.0, 1.5), (2, 2.5, 1.4)]
    assert steps[2].nonfinite() == ("loss",)


@pytest.mark.parametrize("name", ["metrics.csv", "curve.csv"])
def test_a_plain_loss_is_lightning_s_only_in_its_own_file(cli: Cli, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("epoch,loss,step\n0,2.4,49\n0,2.3,99\n")
    made = cli("ingest", tmp_path / name, "--json").document
    steps = [step.step for step in records.steps(made["run"])]
    assert (made["dialect"], steps) == (("lightning_csv", [50, 100]) if name == "metrics.csv" else ("csv", [49, 99]))


def test_a_row_with_a_word_is_unread(cli: Cli, tmp_path: Path) -> None:
    steps = read(cli, tmp_path / "metrics.csv", "epoch,step,train_loss\n0,0,2.4\n0,1,oops\n0,2,2.2\n")
    assert [step.step for step in steps] == [1, 3]
