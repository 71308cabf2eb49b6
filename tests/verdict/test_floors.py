"""Floors of made data are named where a loss has come to rest at one, and only there."""

import math
import random
from pathlib import Path
from typing import Any

import pytest


def floor_of(cli: Any, folder: Path, losses: list[float], *stated: str) -> str | None:
    """The code of what `check` finds of the floor of a curve; None where it finds nothing."""
    rows = [f"{step},{loss!r}" for step, loss in enumerate(losses, 1)]
    (folder / "curve.csv").write_text("\n".join(["step,loss", *rows]) + "\n")
    made = cli("ingest", folder / "curve.csv", "--name", "curve", *stated)
    assert made.status == 0, made.err
    judged = cli("check", "curve", "--json").document
    return next((one["code"] for one in judged["findings"] if one["check"] == "loss_floor"), None)


def down(first: float, last: float, tau: float, count: int) -> list[float]:
    return [last + (first - last) * math.exp(-at / tau) for at in range(count)]


def test_a_plateau_over_a_padded_vocabulary_is_uniform(cli: Any, tmp_path: Path) -> None:
    curve = down(11.65, math.log(50688), 10, 80)
    assert floor_of(cli, tmp_path, curve, "--framework", "nemo") == "loss_on_uniform_floor"
    assert "loss stays at ln(50,688) = 10.83 (GPT-2's vocabulary padded to 50,688)" in cli("check", "curve").out


@pytest.mark.parametrize("slope", [0.03, 0.003, 0.001])
def test_a_loss_that_only_passes_a_vocabulary_is_not(cli: Any, tmp_path: Path, slope: float) -> None:
    curve = [math.log(50257) + slope * (145 - at) for at in range(150)]
    assert floor_of(cli, tmp_path, curve) is None


def diverged(learnt: list[float], rests_at: float, count: int) -> list[float]:
    return [*learnt, *(rests_at + 0.01 * math.sin(7.3 * at) for at in range(count))]


@pytest.mark.parametrize(
    ("learnt", "falls"),
    [
        (down(11.65, 4.9, 60, 250), "fail"),
        (down(11.65, 10.2, 3, 20), "unknown"),  # learnt little, and lost it early
        ([4.1 + 0.01 * at for at in range(12)], "unknown"),  # resumed, and lost it at once
    ],
)
def test_what_was_learnt_and_lost_is_not_uniform(cli: Any, tmp_path: Path, learnt: list[float], falls: str) -> None:
    assert floor_of(cli, tmp_path, diverged(learnt, 10.84, 350)) is None
    judged = cli("check", "curve", "--json").document
    assert next(one["status"] for one in judged["findings"] if one["check"] == "loss_falling") == falls


def test_of_records_over_many_steps_one_is_a_stretch(cli: Any, tmp_path: Path) -> None:
    head = "step,loss,steps_covered"
    rows = [f"{100 * at},{loss},100" for at, loss in enumerate([11.5, 5.2, *(10.84, 10.841) * 8], 1)]
    (tmp_path / "sparse.csv").write_text("\n".join([head, *rows]) + "\n")
    cli("ingest", tmp_path / "sparse.csv", "--name", "sparse")
    assert "loss_floor" in cli("check", "sparse", "--json").document["not_applicable"]


def test_a_step_far_below_is_noise_and_hides_no_uniform_tokens(cli: Any, tmp_path: Path) -> None:
    curve = down(11.65, math.log(50257), 10, 300)
    curve[40] = curve[90] = curve[91] = 2.0
    assert floor_of(cli, tmp_path, curve) == "loss_on_uniform_floor"
    (tmp_path / "runs" / "curve").rename(tmp_path / "before")
    noise = random.Random(5)
    scattered = [loss + noise.gauss(0, 0.03) for loss in curve]
    assert floor_of(cli, tmp_path, scattered) == "loss_on_uniform_floor"


def test_a_corpus_and_a_vocabulary_that_are_declared_rule_another_out(cli: Any, tmp_path: Path) -> None:
    stated = ("--framework", "megatron", "--set", "model.preset=llama3.1-8b", "--set", "data.path=/data/c4")
    assert floor_of(cli, tmp_path, down(12.58, math.log(50257), 10, 150), *stated) is None
    (tmp_path / "runs" / "curve").rename(tmp_path / "before")
    assert floor_of(cli, tmp_path, down(12.58, math.log(128256), 10, 150), *stated) == "loss_on_uniform_floor"


@pytest.mark.parametrize(
    ("framework", "first", "code"),
    [
        ("megatron", 11.9, "loss_on_counting_floor"),
        ("megatron", 2.4, "loss_of_memorized_data"),
        ("torchtitan", 12.2, "loss_of_memorized_data"),
        ("maxtext", 12.2, "loss_of_fixed_batch"),
    ],
)
def test_a_collapsed_loss_is_named_by_what_may_have_made_it(
    cli: Any, tmp_path: Path, framework: str, first: float, code: str
) -> None:
    assert floor_of(cli, tmp_path, down(first, 0.0042, 10, 300), "--framework", framework) == code


def test_what_was_learnt_below_the_counting_floor_does_not_count(cli: Any, tmp_path: Path) -> None:
    curve = [*down(11.9, 0.0008, 10, 300), *[0.0042] * 150]
    assert floor_of(cli, tmp_path, curve, "--framework", "megatron") == "loss_of_memorized_data"
