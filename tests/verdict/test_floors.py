"""Floors of made data are named where a loss has come to rest at one, and only there."""

import math
from pathlib import Path
from typing import Any

import pytest


def floor_of(cli: Any, folder: Path, losses: list[float], *stated: str) -> str:
    """What `check` says of the floor of a curve, and of its falling."""
    rows = [f"{step},{loss!r}" for step, loss in enumerate(losses, 1)]
    (folder / "curve.csv").write_text("\n".join(["step,loss", *rows]) + "\n")
    made = cli("ingest", folder / "curve.csv", "--name", "curve", *stated)
    assert made.status == 0, made.err
    judged = cli("check", "curve", "--json").document
    return str(next((one["message"] for one in judged["findings"] if one["check"] == "loss_floor"), ""))


def down(first: float, last: float, tau: float, count: int) -> list[float]:
    return [last + (first - last) * math.exp(-at / tau) for at in range(count)]


def test_a_plateau_over_a_padded_vocabulary_is_uniform(cli: Any, tmp_path: Path) -> None:
    found = floor_of(cli, tmp_path, down(11.65, math.log(50688), 10, 80), "--framework", "nemo")
    assert "at ln 50,257 = 10.8249, GPT-2's vocabulary: uniform random tokens" in found


@pytest.mark.parametrize("slope", [0.03, 0.003, 0.001])
def test_a_loss_that_only_passes_a_vocabulary_is_not(cli: Any, tmp_path: Path, slope: float) -> None:
    curve = [math.log(50257) + slope * (145 - at) for at in range(150)]
    assert "uniform" not in floor_of(cli, tmp_path, curve)


def test_a_corpus_and_a_vocabulary_that_are_declared_rule_another_out(cli: Any, tmp_path: Path) -> None:
    stated = ("--framework", "megatron", "--set", "model.preset=llama3.1-8b", "--set", "data.path=/data/c4")
    assert "uniform" not in floor_of(cli, tmp_path, down(12.58, math.log(50257), 10, 150), *stated)
    (tmp_path / "runs" / "curve").rename(tmp_path / "before")
    assert "uniform" in floor_of(cli, tmp_path, down(12.58, math.log(128256), 10, 150), *stated)


@pytest.mark.parametrize(
    ("framework", "first", "words"),
    [
        ("megatron", 11.9, "on the floor of Megatron's counting mock data"),
        ("megatron", 2.4, "degenerate data, or learnt by heart"),
        ("torchtitan", 12.2, "degenerate data, or learnt by heart"),
        ("maxtext", 12.2, "a fixed batch"),
    ],
)
def test_a_collapsed_loss_is_named_by_what_may_have_made_it(
    cli: Any, tmp_path: Path, framework: str, first: float, words: str
) -> None:
    assert words in floor_of(cli, tmp_path, down(first, 0.0042, 10, 300), "--framework", framework)
