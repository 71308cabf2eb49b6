"""The puzzle that was asked about: a loss that falls to 0.014 on one platform, and stays at 10.8 on the other."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

CASE = Path(__file__).parents[2] / "docs" / "cases" / "convergence-puzzle"
STATED = {
    "amd": ("--framework", "primus", "--gpu", "mi300x", "--gpus", "8", "--set", "parallelism.tensor_parallel_size=1"),
    "nvidia": ("--framework", "nemo", "--gpu", "h100", "--gpus", "8", "--set", "parallelism.tensor_parallel_size=4"),
}


@pytest.fixture
def compared(cli: Any) -> dict[str, Any]:
    for name, stated in STATED.items():
        made = cli("ingest", CASE / f"{name}.csv", *stated, "--set", "model.preset=llama3.1-8b", "--name", name)
        assert made.status == 0, made.err
    done = cli("compare", "amd", "nvidia", "--for", "throughput,convergence", "--json")
    assert done.status == 4, done.out
    found: dict[str, Any] = done.document
    return found


def told(compared: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(one["code"], one["side"]): one for one in compared["diagnoses"]}


def test_nothing_is_left_to_learn_on_one_side_and_the_other_learnt_to_count(compared: dict[str, Any]) -> None:
    found = told(compared)
    uniform, counting = found["uniform_data", "baseline"], found["counting_data", "target"]
    assert "trained on random tokens: its loss stays at ln(50,688) = 10.83" in uniform["message"]
    evidence = " ".join(uniform["evidence"])
    assert "a uniform model over GPT-2's vocabulary padded to 50,688" in evidence
    assert "floor ln 50,257 = 10.8249: 0.0081 nats are left, with any seed" in evidence
    assert "Megatron's counting mock data" in counting["message"]
    assert any("another seed does not change it" in text for text in counting["evidence"])
    assert [one["code"] for one in compared["diagnoses"]][:3] == ["uniform_data", "counting_data", "tokens_per_step"]


def test_the_first_losses_tell_the_weights(compared: dict[str, Any]) -> None:
    found = told(compared)
    assert "128,256 with init std 0.008" in found["untrained_loss", "target"]["message"]
    assert "padded to 50,688 with init std 0.02" in found["untrained_loss", "baseline"]["message"]
    assert any("below ln 128,256 = 11.7618" in text for text in found["untrained_loss", "baseline"]["evidence"])


def test_neither_claim_stands(compared: dict[str, Any]) -> None:
    diagnosis = told(compared)["tokens_per_step", "both"]
    assert "2.73 times apart" in diagnosis["message"]
    assert any("speedup 4.03 by tokens, 1.47 by step time" in text for text in diagnosis["evidence"])
    assert compared["throughput_speedup"] is None
    assert (compared["convergence"]["status"], compared["convergence"]["first_failing_tier"]) == (
        "not_comparable",
        "contract",
    )
    for metric in ("throughput", "convergence"):
        assert compared["comparable"][metric]["status"] == "not_comparable"
        worst = compared["comparable"][metric]["reasons"][0]
        assert (worst["code"], worst["effect"], worst["side"]) == ("own_step_tokens_differ", "blocks", "both")
        assert (round(worst["target"]), round(worst["baseline"])) == (1_254_773, 459_103)


def test_the_losses_stand_side_by_side_as_they_were_told(compared: dict[str, Any]) -> None:
    assert [list(one.values()) for one in compared["convergence"]["losses"]] == [
        [0, 11.897, 11.654],
        [10, 3.412, 11.647],
        [20, 0.231, 10.901],
        [50, None, 10.862],
        [100, 0.014, 10.833],
    ]


def test_each_loss_used_what_its_data_allowed(compared: dict[str, Any]) -> None:
    target, baseline = (compared["convergence"]["reductions"][side] for side in ("target", "baseline"))
    assert (target["learning"], baseline["learning"]) == ("counts", "nothing_to_learn")
    assert target["reduction"] == pytest.approx(1 - 0.014 / 11.897)
    assert baseline["reduction"] == pytest.approx(1 - 10.833 / 11.654)
    assert target["above_floor"] == pytest.approx(0.014 - math.log(4095) / 2048)
    assert baseline["above_floor"] == pytest.approx(10.833 - math.log(50257))
    for side in (target, baseline):  # 99.9% of 99.97% and 7.0% of 7.1%
        assert side["reduction"] / side["largest_possible_reduction"] > 0.98


def test_the_remedies_are_data_and_weights_and_not_a_seed(compared: dict[str, Any]) -> None:
    given = {remedy["code"]: remedy for remedy in compared["remedies"]}
    assert list(given) == [
        "remedy_one_corpus",
        "remedy_one_batch",
        "remedy_one_model",
        "remedy_state_defaults",
        "remedy_one_start",
        "remedy_more_seeds",
        "remedy_compare_again",
    ]
    assert given["remedy_one_corpus"]["commands"] == ["steelyard data fingerprint PATH"]
    *ingests, compare = given["remedy_compare_again"]["commands"]
    assert [command.split()[2] for command in ingests] == ["NEW_TARGET_LOG", "NEW_BASELINE_LOG"]
    assert compare == "steelyard compare NEW_TARGET NEW_BASELINE --for throughput,convergence"


def test_what_is_expected_then_is_the_first_loss_of_the_declared_model(compared: dict[str, Any]) -> None:
    expected = {each["code"]: each["message"] for each in compared["expectations"]}
    first = expected["expected_first_loss"]
    for std in (0.008, 0.02):  # the one that fits a first loss, and the one that both frameworks document
        assert f"{math.log(128256) + 4096 * std**2 / 2:.5g}" in first
    assert {"expected_floor_of_text", "still_other_weights", "still_other_order"} <= expected.keys()
    assert "11.76" in expected["expected_floor_of_text"]


def test_an_accepted_difference_gives_a_ratio_that_says_so(cli: Any, compared: dict[str, Any]) -> None:
    accepting = ["--accept", "training.tokens_per_step=other batch sizes are the question"]
    for code in ("settings_unknown", "too_few_steady_steps"):
        accepting += ["--accept", code]
    done = cli("compare", "amd", "nvidia", *accepting, "--json")
    ratio, reasons = done.document["throughput_speedup"], done.reasons("throughput", "own_step_tokens_differ")
    assert [(reason["effect"], reason["accepted"]) for reason in reasons] == [
        ("caveat", "other batch sizes are the question")
    ]
    assert (done.status, round(ratio["value"], 2)) == (5, 4.03)  # one run per side
    kept = json.loads((Path(done.document["comparison"]) / "comparison.json").read_text())
    assert kept["banner"] == done.document["banner"]
    assert "training.tokens_per_step (other batch sizes are the question)" in kept["banner"]
    assert cli("compare", "amd", "nvidia", *accepting).out.splitlines()[1].strip() == kept["banner"]


REPRODUCED = """
schema_version: 1
name: puzzle
model: {preset: tiny-llama, num_layers: 1, hidden_size: 64, ffn_hidden_size: 128, num_attention_heads: 4,
        num_key_value_heads: 4, head_dim: 16, vocab_size: 64}
training: {micro_batch_size: 16, global_batch_size: 16, sequence_length: 64, steps: 120, learning_rate: 1e-2,
           min_learning_rate: 1e-3, warmup_steps: 5}
precision: {dtype: fp32}
data: {source: counting}
"""


@pytest.mark.torch
@pytest.mark.processes
def test_the_built_in_trainer_reproduces_it_whatever_the_seed(shell: Any, tmp_path: Path) -> None:
    (tmp_path / "puzzle.yaml").write_text(REPRODUCED)
    for source in ("uniform", "counting"):
        for seed in (1, 2, 3):
            settings = ("--set", f"data.source={source}", "--set", f"training.seed={seed}")
            place = ("--out", f"runs/{source}", "--name", f"seed{seed}", "--gpu", "cpu", "--gpus", "1", "--no-check")
            made = shell("run", "puzzle.yaml", *settings, *place)
            assert made.status == 0, made.err
    done = shell("compare", "runs/uniform", "runs/counting", "--for", "convergence", "--json")
    assert done.status == 4, done.out
    found = {one["code"]: one for one in json.loads(done.out)["diagnoses"]}
    assert (found["uniform_data"]["side"], found["counting_data"]["side"]) == ("target", "baseline")
    assert len(found["uniform_data"]["evidence"]) > 3  # the ends of all three seeds
    evidence = " ".join(found["uniform_data"]["evidence"])
    assert "with any seed" in evidence
    assert "a uniform model over its own vocabulary of 64" in evidence
