"""Two trainings that differ in one thing: with their configs the contract names it, as mere curves a tier does."""

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import pytest

from steelyard.cli.main import main
from steelyard.experiment.keys import KEYS

pytestmark = [pytest.mark.torch, pytest.mark.processes]

BASE = """
schema_version: 1
name: tiny
model: {preset: tiny-llama, num_layers: 2, hidden_size: 32, ffn_hidden_size: 64, num_attention_heads: 4,
        num_key_value_heads: 2, head_dim: 8, vocab_size: 128}
training: {seed: 1, micro_batch_size: 16, global_batch_size: 16, sequence_length: 32, steps: 150, learning_rate: 3e-3,
           min_learning_rate: 3e-4, warmup_steps: 10}
precision: {dtype: fp32}
data: {source: markov, seed: 7}
"""
CHANGED = {
    "base": (),
    "bf16": ("precision.dtype=bf16",),
    "faster-rate": ("training.learning_rate=3.6e-3",),
    "beta2": ("training.adam_beta2=0.999",),
    "another-order": ("data.seed=8",),
    "slower-schedule": ("training.decay_steps=195",),
    "no-weight-decay": ("training.weight_decay=0",),
}
FAILS_AT = {
    "faster-rate": ("training.learning_rate", "first_steps"),
    "beta2": ("training.adam_beta2", "level"),
    "another-order": ("data.seed", "first_loss"),
    "slower-schedule": ("training.decay_steps", "level"),
}
"""The key the contract names, and the tier at which the curves fail that state no more than weights and data.

A rate that is a fifth higher moves every early step by a fifth more; another order gives other batches at once. Adam's
second moment is corrected for its start, so that beta2 acts late; a longer decay is the same cosine at its start.
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every one of them trained, and its losses alone as a CSV, under one folder."""
    folder = tmp_path_factory.mktemp("tiny")
    (folder / "tiny.yaml").write_text(BASE)
    for name, settings in CHANGED.items():
        words = [word for setting in settings for word in ("--set", setting)]
        call(folder, "run", "tiny.yaml", "--gpu", "cpu", "--gpus", "1", "--name", name, "--no-check", *words)
        losses = [
            json.loads(line)["loss"] for line in (folder / "runs" / name / "steps.jsonl").read_text().splitlines()
        ]
        bare(folder, name, losses)
        if name == "base":
            bare(folder, "scaled", [1.03 * loss for loss in losses])
    return folder


def bare(folder: Path, name: str, losses: list[float]) -> None:
    rows = [f"{step},{loss!r}" for step, loss in enumerate(losses, 1)]
    (folder / f"{name}.csv").write_text("\n".join(["step,loss", *rows]) + "\n")
    keys = ("training.initial_weights=of-seed-1", "data.source=markov", "data.seed=7", "kernels.deterministic=true")
    words = [word for key in keys for word in ("--set", key)]
    call(folder, "ingest", f"{name}.csv", "--name", name, "--out", "bare", *words)


def call(folder: Path, *arguments: str, status: int = 0) -> Any:
    out = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(out), pytest.raises(SystemExit) as ended:
        main([*arguments, "--json"])
    assert (ended.value.code or 0) == status, out.getvalue()
    return json.loads(out.getvalue())


def compared(folder: Path, name: str, out: str, status: int) -> dict[str, Any]:
    found: dict[str, Any] = call(
        folder, "compare", f"{out}/{name}", f"{out}/base", "--out", out, "--for", "convergence", status=status
    )
    return found


def test_bf16_learns_as_fp32_does_and_its_precision_is_said(trained: Path) -> None:
    found = compared(trained, "bf16", "runs", 0)["convergence"]
    assert (found["status"], found["first_failing_tier"]) == ("equivalent", None)
    assert {tier["status"] for tier in found["tiers"]} == {"pass"}
    assert any("precision.dtype differs: bf16 on bf16, fp32 on base" in one for one in found["qualified"])
    assert "setting_differs" in found["qualified_codes"]
    assert "scope_few_seeds" in found["scope_codes"]


@pytest.mark.parametrize("name", FAILS_AT)
def test_with_its_config_the_contract_names_the_key(trained: Path, name: str) -> None:
    found = compared(trained, name, "runs", 4)
    assert found["convergence"]["first_failing_tier"] == "contract"
    assert FAILS_AT[name][0] in KEYS
    assert found["convergence"]["tiers"][0]["message"].startswith(f"{FAILS_AT[name][0]} differs: ")
    assert FAILS_AT[name][0] in next(one for one in found["diagnoses"] if one["code"] == "different_setting")["message"]


@pytest.mark.parametrize(
    ("name", "tier"), [*((name, tier) for name, (_, tier) in FAILS_AT.items()), ("scaled", "first_loss")]
)
def test_as_bare_curves_they_fail_at_a_tier(trained: Path, name: str, tier: str) -> None:
    found = compared(trained, name, "bare", 1)["convergence"]
    assert (found["status"], found["first_failing_tier"]) == ("not_equivalent", tier)
    assert found["tiers"][0]["status"] == "unknown"


def test_weight_decay_hardly_shows_so_soon_and_that_is_said(trained: Path) -> None:
    found = compared(trained, "no-weight-decay", "bare", 5)["convergence"]
    assert found["status"] == "unknown"
    assert all(tier["status"] in ("pass", "unknown") for tier in found["tiers"])
    assert "scope_slow_settings" in found["scope_codes"]
    assert compared(trained, "no-weight-decay", "runs", 4)["convergence"]["first_failing_tier"] == "contract"


def test_where_curves_part_is_told_and_what_it_looks_like(trained: Path) -> None:
    def parting(name: str) -> str:
        diagnoses = compared(trained, name, "runs", 4)["diagnoses"]
        return str(next(one for one in diagnoses if one["code"] == "parting")["message"])

    assert "a different setting (learning rate, schedule, optimizer) is likely" in parting("faster-rate")
    assert "different data order" in parting("another-order")
    rates = compared(trained, "faster-rate", "runs", 4)["diagnoses"]
    assert any(one["code"] == "learning_rate" for one in rates)
