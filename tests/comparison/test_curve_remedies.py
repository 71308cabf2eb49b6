"""How far losses fall, what to do about curves that differ, what to expect; nothing where nothing is broken."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from steelyard.comparison.reduction import Learning

FALLING = "step,loss\n" + "".join(f"{step},{4 + 6 * math.exp(-step / 40):.4f}\n" for step in range(120))
COUNTING_FLOOR = math.log(4095) / 2048


def compared(cli: Any, *words: str) -> dict[str, Any]:
    document: dict[str, Any] = cli("compare", *words, "--json").document
    return document


def ingested(cli: Any, name: str, content: str, *stated: str) -> None:
    Path(f"{name}.csv").write_text(content)
    made = cli("ingest", f"{name}.csv", "--name", name, *stated)
    assert made.status == 0, made.err


def codes(document: dict[str, Any], part: str) -> list[str]:
    return [each["code"] for each in document[part]]


def test_a_reduction_is_given_with_the_floor_that_limits_it(cli: Any, recorded: Any) -> None:
    recorded("again"), recorded("baseline")
    curves = compared(cli, "again", "baseline", "--for", "convergence")["convergence"]
    target = curves["reductions"]["target"]
    losses = [json.loads(line)["loss"] for line in Path("runs/again/steps.jsonl").read_text().splitlines()]
    assert target["learning"] == Learning.LEARNS
    assert (target["first_step"], target["end_step"]) == (1, len(losses))
    assert target["first_loss"] == pytest.approx(losses[0])
    assert target["end_loss"] == pytest.approx(sorted(losses[-10:])[4] / 2 + sorted(losses[-10:])[5] / 2)
    assert target["reduction"] == pytest.approx(1 - target["end_loss"] / losses[0])
    assert (target["floor"], target["floor_of"]) == (pytest.approx(1.75 * math.log(2)), "markov")
    assert target["above_floor"] == pytest.approx(target["end_loss"] - target["floor"])
    assert target["largest_possible_reduction"] == pytest.approx(1 - target["floor"] / losses[0])


def test_the_floor_of_text_is_unknown(cli: Any) -> None:
    for name in ("a", "b"):
        ingested(cli, name, FALLING, "--framework", "megatron", "--set", "data.path=/data/c4")
    reductions = compared(cli, "a", "b", "--for", "convergence")["convergence"]["reductions"]
    for side in reductions.values():
        assert side["learning"] == Learning.LEARNS
        assert side["reduction"] == pytest.approx(1 - side["end_loss"] / 10)
        assert [side[key] for key in ("floor", "above_floor", "largest_possible_reduction")] == [None] * 3


def test_a_side_with_two_losses_has_no_reduction(cli: Any) -> None:
    ingested(cli, "a", FALLING, "--framework", "megatron")
    ingested(cli, "b", "step,loss\n0,11\n1,10\n", "--framework", "megatron")
    reductions = compared(cli, "a", "b", "--for", "convergence")["convergence"]["reductions"]
    assert reductions["target"]["reduction"] > 0
    assert reductions["baseline"] is None


def test_a_rising_loss_has_a_negative_reduction_and_fails(cli: Any) -> None:
    rising = "step,loss\n" + "".join(f"{step},{4 + step / 50}\n" for step in range(120))
    ingested(cli, "a", rising, "--framework", "megatron")
    ingested(cli, "b", FALLING, "--framework", "megatron")
    target = compared(cli, "a", "b", "--for", "convergence")["convergence"]["reductions"]["target"]
    assert target["learning"] == Learning.FAILS
    assert target["reduction"] == pytest.approx(1 - target["end_loss"] / 4)
    assert target["reduction"] < 0


def test_a_side_that_does_not_learn_is_looked_at_first_even_if_the_contract_is_unknown(cli: Any) -> None:
    ingested(
        cli, "a", "step,loss\n" + "".join(f"{step},11.03123456\n" for step in range(12)), "--framework", "megatron"
    )
    ingested(cli, "b", FALLING, "--framework", "megatron")
    document = compared(cli, "a", "b", "--for", "convergence")
    assert document["convergence"]["status"] == "unknown"
    assert document["convergence"]["reductions"]["target"]["learning"] == Learning.FAILS
    first = document["remedies"][0]
    assert (first["code"], first["side"]) == ("remedy_make_it_fall", "target")
    assert first["commands"] == ["steelyard check runs/a -v"]


def test_equal_curves_have_nothing_to_fix(cli: Any, recorded: Any) -> None:
    recorded("again"), recorded("baseline")
    document = compared(cli, "again", "baseline", "--for", "convergence")
    assert document["convergence"]["status"] == "equivalent"
    assert (document["remedies"], document["expectations"]) == ([], [])


def test_curves_that_learn_and_are_undecided_have_nothing_to_fix(cli: Any) -> None:
    for name in ("a", "b"):
        ingested(cli, name, FALLING, "--framework", "megatron", "--set", "data.path=/data/c4")
    document = compared(cli, "a", "b", "--for", "convergence")
    assert document["convergence"]["status"] == "unknown"
    assert (document["remedies"], document["expectations"]) == ([], [])
    assert document["next"]["commands"]


def test_a_question_about_throughput_has_no_remedies_for_curves(cli: Any, recorded: Any) -> None:
    recorded("half-batch"), recorded("baseline")
    document = compared(cli, "half-batch", "baseline", "--for", "throughput")
    assert document["convergence"]["status"] == "not_comparable"
    assert (document["remedies"], document["expectations"]) == ([], [])


def test_a_refused_pair_is_led_to_equal_settings(cli: Any, recorded: Any) -> None:
    recorded("half-batch"), recorded("baseline")
    document = compared(cli, "half-batch", "baseline", "--for", "convergence")
    assert codes(document, "remedies")[0] == "remedy_one_batch"
    (command,) = document["remedies"][0]["commands"]
    assert command.endswith("--set training.global_batch_size=8")
    commands = [command for remedy in document["remedies"] for command in remedy["commands"]]
    assert len(commands) == len(set(commands))
    first, *_ = document["expectations"]
    assert first["code"] == "expected_first_loss"
    assert "12.581" in first["message"]  # ln 128,256 + 4,096 x 0.02² / 2
    assert "still_other_weights" not in codes(document, "expectations")  # one framework, GPU and seed


def test_a_side_that_ends_in_nan_is_led_to_the_step_before(cli: Any, recorded: Any) -> None:
    recorded("again").edit_steps(
        lambda step: {**step, "loss": None, "nonfinite": {"loss": "NaN"}} if step["step"] >= 30 else step
    )
    recorded("baseline")
    document = compared(cli, "again", "baseline", "--for", "convergence")
    target = document["convergence"]["reductions"]["target"]
    assert (target["learning"], target["end_step"]) == (Learning.NOT_FINITE, 29)
    first = document["remedies"][0]
    assert (first["code"], first["side"]) == ("remedy_before_it_ends", "target")
    assert "step 30" in first["message"]


def test_a_side_without_any_valid_loss_is_named_all_the_same(cli: Any, recorded: Any) -> None:
    recorded("again").edit_steps(lambda step: {**step, "loss": None, "nonfinite": {"loss": "NaN"}})
    recorded("baseline")
    document = compared(cli, "again", "baseline", "--for", "convergence")
    assert document["convergence"]["status"] == "not_equivalent"
    assert document["convergence"]["reductions"]["target"] is None
    first = document["remedies"][0]
    assert (first["code"], first["side"]) == ("remedy_before_it_ends", "target")
    cli("compare", "again", "baseline", "--for", "convergence", "--name", "first")
    assert cli("report", "first", "--to", "md", "-o", "page.md").status == 0
    assert "- again has fewer than 3 valid losses" in Path("page.md").read_text()


def test_a_new_log_is_imported_as_the_old_one_was(cli: Any) -> None:
    rising = "step,loss\n" + "".join(f"{step},{4 + step / 50}\n" for step in range(120))
    for name, log in (("a", rising), ("b", FALLING)):
        ingested(cli, name, log, "--framework", "megatron")
        path = Path(f"runs/{name}/run.json")
        content = json.loads(path.read_text())
        words = [
            "steelyard",
            "ingest",
            f"{name}.csv",
            "--name",
            name,
            "--framework",
            "megatron",
            "--set",
            "data.path=/x y",
        ]
        path.write_text(json.dumps({**content, "provenance": {**content["provenance"], "command": words}}))
    document = compared(cli, "a", "b", "--for", "convergence")
    assert document["convergence"]["status"] == "not_equivalent"
    again = next(remedy for remedy in document["remedies"] if remedy["code"] == "remedy_compare_again")
    assert again["commands"][0] == (
        "steelyard ingest NEW_TARGET_LOG --framework megatron --set 'data.path=/x y' --name NEW_TARGET"
    )


def test_a_repeated_batch_is_not_called_learning(cli: Any) -> None:
    log = "step,loss\n" + "".join(f"{step},{10.4 - step / 1000}\n" for step in range(120))
    ingested(
        cli, "a", log, "--framework", "maxtext", "--set", "data.samples=4", "--set", "training.global_batch_size=4"
    )
    ingested(cli, "b", FALLING, "--framework", "maxtext")
    document = compared(cli, "a", "b", "--for", "convergence")
    assert document["convergence"]["reductions"]["target"]["learning"] == Learning.REPEATS
    assert codes(document, "remedies")[0] == "remedy_one_corpus"


def test_the_first_loss_to_expect_is_the_one_of_the_declared_model(cli: Any) -> None:
    flat = "step,loss\n" + "".join(f"{step},{max(0.004, 11.9 - step)}\n" for step in range(120))
    stated = ("--set", "model.preset=llama3.1-8b", "--set", "training.init_method_std=0.01")
    for name, tensor in (("a", 1), ("b", 4)):
        tensors = ("--set", f"parallelism.tensor_parallel_size={tensor}")
        ingested(cli, name, flat, "--framework", "megatron", "--gpu", "h100", "--gpus", "4", *stated, *tensors)
    document = compared(cli, "a", "b", "--for", "convergence")
    message = next(each["message"] for each in document["expectations"] if each["code"] == "expected_first_loss")
    for padded in (128_256, 128_512):  # to a multiple of 128 x tensor-parallel size
        assert f"{math.log(padded) + 4096 * 0.01**2 / 2:.5g}" in message
    assert "still_other_rounding" in codes(document, "expectations")


@pytest.mark.parametrize(
    ("stated", "asked"),
    [((), True), (("--set", "data.fingerprint=abc"), False), (("--set", "data.path=/data/c4"), False)],
)
def test_curves_that_differ_on_unrecorded_data_are_led_to_its_fingerprint(cli: Any, stated: Any, asked: bool) -> None:
    higher = "step,loss\n" + "".join(f"{step},{6 + 4 * math.exp(-step / 40):.4f}\n" for step in range(120))
    ingested(cli, "a", FALLING, "--framework", "megatron", *stated)
    ingested(cli, "b", higher, "--framework", "megatron", *stated)
    document = compared(cli, "a", "b", "--for", "convergence")
    assert document["convergence"]["status"] == "not_equivalent"
    assert ("remedy_name_the_data" in codes(document, "remedies")) == asked


def test_counting_data_is_compared_with_its_floor_by_a_mean(cli: Any) -> None:
    batches = [0.0001 if step % 8 else 0.0400 for step in range(400)]  # the end of a document in every eighth batch
    log = "step,loss\n" + "".join(
        f"{step},{11.7 - step if step < 11 else loss:.4f}\n" for step, loss in enumerate(batches)
    )
    ingested(cli, "a", log, "--framework", "megatron")
    ingested(cli, "b", FALLING, "--framework", "megatron")
    target = compared(cli, "a", "b", "--for", "convergence")["convergence"]["reductions"]["target"]
    assert target["learning"] == Learning.COUNTS
    assert target["end_loss"] == pytest.approx(sum(batches[300:]) / 100)
    assert target["reduction"] < target["largest_possible_reduction"]
    assert target["above_floor"] > 0


def test_generated_data_on_both_sides_is_not_led_from_one_kind_to_the_other(cli: Any, recorded: Any) -> None:
    for name, source, floor in (("again", "uniform", math.log(128256)), ("baseline", "counting", COUNTING_FLOOR)):
        run = recorded(name).set("experiment/data/source", source)
        run.set("expected/loss_floor", floor)
    document = compared(cli, "again", "baseline", "--for", "convergence")
    assert document["convergence"]["status"] == "not_comparable"
    first = document["remedies"][0]
    assert first["code"] == "remedy_one_corpus"
    assert [command.split()[-1] for command in first["commands"]] == ["data.source=markov"]
    assert "remedy_equal_settings" not in codes(document, "remedies")
