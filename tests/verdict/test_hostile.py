"""Runs made to deceive, or merely odd: none passes that should not, none ends in an error of our own."""

import json
import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steelyard.accounting.steady import steady_window


def finding(document: dict[str, Any], check: str) -> dict[str, Any]:
    return next(one for one in document["findings"] if one["check"] == check)


def as_foreign(run: Any) -> Any:
    """A run whose framework we do not launch: its log interval is its own."""
    return run.set("framework", "megatron")


@pytest.mark.parametrize(
    ("kept", "status"),
    [
        (lambda step: step in (1, 60), "fail"),
        (lambda step: step <= 20 or step % 2 == 0, "fail"),
        (lambda step: step == 1 or step % 10 == 0, "pass"),
        (lambda step: step % 10 == 0, "pass"),
        (lambda step: step % 10 == 0 and step != 30, "fail"),
    ],
)
def test_missing_steps_are_seen_by_the_log_s_own_interval(cli: Any, recorded: Any, kept: Any, status: str) -> None:
    run = as_foreign(recorded()).edit_steps(lambda step: step if kept(step["step"]) else None)
    assert finding(cli("check", run, "--json").document, "steps_present")["status"] == status


def test_the_built_in_trainer_prints_every_step(cli: Any, recorded: Any) -> None:
    run = recorded().edit_steps(lambda step: step if step["step"] % 2 == 0 else None)
    assert finding(cli("check", run, "--json").document, "steps_present")["status"] == "fail"


def test_an_interval_that_does_not_divide_the_plan_can_complete(cli: Any, recorded: Any) -> None:
    run = as_foreign(recorded()).set("experiment/training/steps", 65)
    run.edit_steps(lambda step: None if step["step"] % 10 else {**step, "steps_covered": 10})
    assert finding(cli("check", run, "--json").document, "completed")["status"] == "pass"
    run.set("status", "interrupted")
    assert finding(cli("check", run, "--json").document, "completed")["status"] == "fail"


def test_a_record_cannot_cover_more_steps_than_there_are(cli: Any, recorded: Any) -> None:
    run = recorded().edit_steps(lambda step: {**step, "steps_covered": 1000})
    assert finding(cli("check", run, "--json").document, "steps_present")["status"] == "unknown"


@pytest.mark.parametrize("warmup", [[], ["--warmup-steps", "1000"]])
def test_a_boast_is_not_excused_by_an_empty_window(cli: Any, recorded: Any, warmup: list[str]) -> None:
    run = recorded().set("platform/gpu", None).set("platform/gpu_name", "cpu")
    run.edit_steps(
        lambda step: {
            **{key: value for key, value in step.items() if key != "step_time_s" or warmup},
            "reported_tokens_per_s_per_gpu": 1e12,
        }
    )
    done = cli("check", run, *warmup, "--json")
    assert (done.status, finding(done.document, "throughput_identity")["status"]) == (5, "unknown")


@pytest.mark.parametrize("key", ["tokens", "reported_tflops_per_gpu", "memory_gib", "grad_norm", "step_time_s", "loss"])
@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
def test_a_value_that_is_not_finite_never_passes_and_never_breaks(cli: Any, recorded: Any, key: str, word: str) -> None:
    run = recorded().edit_steps(
        lambda step: {**step, key: None, "nonfinite": {key: word}} if step["step"] == 40 else step
    )
    done = cli("check", run, "--threshold", "memory_peak_gib<=200", "--threshold", "mfu<=1", "--json")
    assert done.status in (1, 5)
    assert json.loads((Path(run) / "verdict.json").read_text())["verdict"] != "pass"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("step", 10**16),
        ("step", -1),
        ("steps_covered", 0),
        ("steps_covered", 2**63),
        ("tokens", 10**400),
        ("tokens", -5),
        ("tokens", "8"),
    ],
)
def test_a_step_no_run_can_have_is_wrong_input(cli: Any, recorded: Any, key: str, value: Any) -> None:
    run = recorded().edit_steps(lambda step: {**step, key: value} if step["step"] == 60 else step)
    done = cli("check", run, "--json")
    assert done.status == 2
    assert "line 60" in done.document["error"]["message"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("platform/world_size", 0),
        ("platform/nodes", -1),
        ("experiment/thresholds", "mfu>=0.3"),
        ("experiment/thresholds", ["nonsense"]),
        ("experiment/thresholds", [5]),
        ("experiment/thresholds", 7),
        ("experiment/compare", "matched"),
        ("experiment/compare", {"warmup_steps": "x"}),
        ("experiment/training/learning_rate", math.nan),
        ("expected/first_loss", math.nan),
        ("schema_version", math.nan),
    ],
)
def test_a_manifest_no_run_can_have_is_wrong_input(cli: Any, recorded: Any, key: str, value: Any) -> None:
    run = recorded().set(key, value)
    for words in (("check", run), ("compare", run, run, "--name", "x"), ("report", run)):
        done = cli(*words, "--json")
        assert done.status == 2, done.out
        assert done.document["error"]["message"]
    assert not Path("runs/comparisons/x").exists()


@pytest.mark.parametrize(
    ("key", "value", "check"),
    [
        ("experiment/training/steps", 0, "completed"),
        ("experiment/training/steps", True, "completed"),
        ("experiment/training/steps", "60", "completed"),
        ("experiment/training/global_batch_size", 10**400, "batch_identity"),
        ("experiment/training/global_batch_size", "8", "batch_identity"),
        ("experiment/precision", {}, "peak_flops"),
        ("experiment/precision", {"dtype": "bf16"}, "peak_flops"),
        ("expected/first_loss", 10**400, "first_loss"),
        ("expected/first_loss", "x", "first_loss"),
    ],
)
def test_what_makes_no_sense_is_not_known(cli: Any, recorded: Any, key: str, value: Any, check: str) -> None:
    done = cli("check", recorded().set(key, value), "--json")
    assert finding(done.document, check)["status"] == "unknown"
    assert cli("runs", "show", "baseline").status == 0


def test_a_precision_that_is_not_known_is_held_to_the_highest_peak(cli: Any, recorded: Any) -> None:
    def faster(by: float) -> Any:
        keys = ("tokens_per_s_per_gpu", "reported_tokens_per_s_per_gpu")
        return lambda step: {**step, "step_time_s": step["step_time_s"] / by, **{key: step[key] * by for key in keys}}

    unknown = recorded("baseline", "a").set("experiment/precision", ...).edit_steps(faster(3.3))
    assert finding(cli("check", unknown, "--json").document, "peak_flops")["status"] == "unknown"
    beyond = recorded("baseline", "b").set("experiment/precision", ...).edit_steps(faster(6))
    assert finding(cli("check", beyond, "--json").document, "peak_flops")["status"] == "fail"
    half = recorded("baseline", "c").set("experiment/precision", {"dtype": "fp16", "fp8": None})
    assert finding(cli("check", half, "--json").document, "peak_flops")["status"] == "pass"


def test_a_nonzero_exit_status_fails_whatever_the_manifest_says(cli: Any, recorded: Any) -> None:
    assert cli("check", recorded().set("exit_status", 137)).status == 1


def test_a_negative_loss_fails_though_the_floor_is_not_known(cli: Any, recorded: Any) -> None:
    run = recorded().set("expected", {}).edit_steps(lambda step: {**step, "loss": -1.0 * step["step"]})
    assert finding(cli("check", run, "--json").document, "loss_floor")["status"] == "fail"


def test_reported_tflops_are_held_step_by_step(cli: Any, recorded: Any) -> None:
    run = recorded().edit_steps(
        lambda step: {**step, "reported_tflops_per_gpu": 5000.0 if step["step"] % 5 < 2 else step["tflops_per_gpu"]}
    )
    assert finding(cli("check", run, "--json").document, "throughput_identity")["status"] == "fail"


def test_a_first_step_without_a_time_is_warm_up(cli: Any, recorded: Any) -> None:
    run = recorded().edit_steps(lambda step: step if step["step"] > 1 else {**step, "step_time_s": None})
    assert cli("check", run).status == 0


def test_an_asked_warm_up_counts_the_steps_records_cover(cli: Any, recorded: Any) -> None:
    run = as_foreign(recorded()).edit_steps(
        lambda step: None if step["step"] % 10 else {**step, "steps_covered": 10, "step_time_s": 2.0}
    )
    for asked, dropped in ((5, 10), (10, 10), (19, 20)):
        figures = cli("check", run, "--warmup-steps", str(asked), "--json").document["figures"]
        assert figures["window"]["dropped"]["warm-up"] == dropped


def test_a_checkpoint_inside_a_record_drops_the_record(cli: Any, recorded: Any) -> None:
    run = as_foreign(recorded()).edit_steps(
        lambda step: None if step["step"] % 10 else {**step, "steps_covered": 10, "step_time_s": 2.0}
    )
    run.add_event(kind="checkpoint", message="saved", step=35)
    assert cli("check", run, "--json").document["figures"]["window"]["dropped"]["checkpoint"] == 10


@pytest.mark.parametrize("seed", range(8))
def test_noise_is_no_evidence_that_a_loss_does_not_fall(cli: Any, recorded: Any, seed: int) -> None:
    chance = random.Random(seed)
    run = (
        recorded()
        .set("expected", {})
        .edit_steps(lambda step: {**step, "loss": 2.0 - 3e-4 * step["step"] + chance.gauss(0, 0.01)})
    )
    assert finding(cli("check", run, "--json").document, "loss_falling")["status"] != "fail"


def test_uniform_data_is_known_by_its_name(cli: Any, recorded: Any) -> None:
    run = recorded().set("expected", {}).set("experiment/data/source", "uniform")
    run.edit_steps(lambda step: {**step, "loss": 11.76 + step["step"] / 100})
    assert "loss_falling" in cli("check", run, "--json").document["not_applicable"]


def test_an_untrained_loss_after_many_steps_fails(cli: Any, recorded: Any) -> None:
    chance = random.Random(1)
    run = recorded().set("experiment/training/steps", 240)
    lines = (Path(run) / "steps.jsonl").read_text().splitlines()
    steps = [{**json.loads(lines[at % 60]), "step": at + 1, "loss": 12.58 + chance.gauss(0, 0.02)} for at in range(240)]
    (Path(run) / "steps.jsonl").write_text("".join(json.dumps(step) + "\n" for step in steps))
    found = finding(cli("check", run, "--json").document, "loss_falling")
    assert (found["code"], found["status"]) == ("loss_still_untrained", "fail")


def test_blank_lines_are_no_records(cli: Any, recorded: Any) -> None:
    run = recorded()
    path = Path(run) / "steps.jsonl"
    path.write_text(path.read_text().replace("\n", "\n\n", 3))
    done = cli("check", run, "--json")
    assert done.status == 2
    assert "line 2 cannot be read" in done.document["error"]["message"]


def test_a_directory_where_a_file_should_be_is_wrong_input(cli: Any, recorded: Any) -> None:
    run = recorded()
    (Path(run) / "steps.jsonl").unlink()
    (Path(run) / "steps.jsonl").mkdir()
    assert cli("check", run).status == 2


def test_words_of_a_window_never_lie_about_a_stall() -> None:
    times = np.ones(60) + 0.005 * np.random.default_rng(0).standard_normal(60)
    times[24:27] *= 5
    step = np.arange(1, 61)
    assert steady_window(step, np.ones_like(step), times, {}).steps == 60
    times[24:27] /= 5
    times[:46] *= 1.5
    assert not steady_window(step, np.ones_like(step), times, {}).settled


def with_losses(run: Any, losses: list[float], covered: int = 1) -> Any:
    """A run of as many records as losses."""
    path = Path(run) / "steps.jsonl"
    template = json.loads(path.read_text().splitlines()[10])
    lines = [
        json.dumps({**template, "step": (at + 1) * covered, "steps_covered": covered, "loss": loss}) + "\n"
        for at, loss in enumerate(losses)
    ]
    path.write_text("".join(lines))
    return run.set("experiment/training/steps", len(losses) * covered).set("framework", "megatron")


@pytest.mark.parametrize(
    ("healthy", "diverged", "code"),
    [(191, 9, "loss_diverges"), (991, 9, "loss_diverges"), (14, 5, "loss_diverges")],
)
def test_a_divergence_at_the_end_fails_however_short(
    cli: Any, recorded: Any, healthy: int, diverged: int, code: str
) -> None:
    losses = [12.58 - 4 * at / healthy for at in range(healthy)] + [1e6 + at for at in range(diverged)]
    run = with_losses(recorded(), losses)
    found = finding(cli("check", run, "--json").document, "loss_falling")
    assert (found["code"], found["status"]) == (code, "fail")


def test_a_spike_that_recovers_does_not_fail(cli: Any, recorded: Any) -> None:
    losses = [12.58 - 6 * at / 300 for at in range(300)]
    losses[250:256] = [40.0] * 6
    run = with_losses(recorded(), losses)
    assert finding(cli("check", run, "--json").document, "loss_falling")["status"] == "pass"


@pytest.mark.parametrize("seed", range(6))
def test_losses_that_remember_each_other_are_no_evidence(cli: Any, recorded: Any, seed: int) -> None:
    chance, noise, losses = random.Random(seed), 0.0, []
    for at in range(1000):
        noise = 0.9 * noise + chance.gauss(0, 0.05 * (1 - 0.81) ** 0.5)
        losses.append(2.0 - 0.02 * at / 1000 + noise)
    run = with_losses(recorded().set("expected", {}), losses)
    assert finding(cli("check", run, "--json").document, "loss_falling")["status"] != "fail"


@pytest.mark.parametrize("seed", range(4))
def test_a_long_noisy_run_at_the_floor_does_not_fall_through_it(cli: Any, recorded: Any, seed: int) -> None:
    chance = random.Random(seed)
    losses = [12.58, *(1.2130 + 0.006 + chance.gauss(0, 0.036) for _ in range(20_000))]
    run = with_losses(recorded(), losses)
    assert finding(cli("check", run, "--json").document, "loss_floor")["status"] == "pass"


@pytest.mark.parametrize(("steps", "status"), [([100, 200, 300], "pass"), ([100, 200], "pass"), ([1, 50, 100], "pass")])
def test_two_or_three_even_records_are_no_gap(cli: Any, recorded: Any, steps: list[int], status: str) -> None:
    run = as_foreign(recorded()).edit_steps(
        lambda step: {**step, "step": steps[step["step"] - 1]} if step["step"] <= len(steps) else None
    )
    run.set("experiment/training/steps", steps[-1])
    assert finding(cli("check", run, "--json").document, "steps_present")["status"] == status


def test_steps_that_were_all_skipped_fail(cli: Any, recorded: Any) -> None:
    run = recorded().edit_steps(
        lambda step: {**step, "flags": ["skipped"], "grad_norm": None, "nonfinite": {"grad_norm": "Infinity"}}
    )
    done = cli("check", run, "--json")
    assert done.status == 1
    assert finding(done.document, "skipped_steps")["status"] == "fail"
    assert finding(done.document, "grad_norm_finite")["status"] == "unknown"
    few = recorded("again").edit_steps(lambda step: {**step, "flags": ["skipped"] if step["step"] < 4 else []})
    assert finding(cli("check", few, "--json").document, "skipped_steps")["status"] == "pass"


@pytest.mark.parametrize(
    ("kind", "check"), [("OOM", "errors"), ("node lost", "errors"), ("fatal", "completed"), ("stall", "stall")]
)
def test_events_count_however_they_are_spelt(cli: Any, recorded: Any, kind: str, check: str) -> None:
    done = cli("check", recorded().add_event(kind=kind, message="x"), "--json")
    assert (done.status, finding(done.document, check)["status"]) == (1, "fail")


def test_a_reported_rate_without_a_time_is_not_known(cli: Any, recorded: Any) -> None:
    run = recorded().set("platform/gpu", None).set("platform/gpu_name", "cpu")
    run.edit_steps(
        lambda step: {**step, "step_time_s": None, "reported_tokens_per_s_per_gpu": 1e9} if step["step"] > 40 else step
    )
    done = cli("check", run, "--json")
    assert (done.status, finding(done.document, "throughput_identity")["status"]) == (5, "unknown")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("experiment/model/hidden_size", -5),
        ("experiment/model/hidden_size", 10**400),
        ("experiment/model/num_layers", 1e300),
        ("experiment/training", []),
    ],
)
def test_odd_dimensions_break_nothing(cli: Any, recorded: Any, key: str, value: Any) -> None:
    run = recorded().set(key, value)
    assert cli("check", run).status not in (2, 3)
    assert cli("runs", "show", run).status == 0
    assert cli("report", run).status == 0


def test_absurd_times_are_none(cli: Any, recorded: Any) -> None:
    done = cli("check", recorded().edit_steps(lambda step: {**step, "step_time_s": 1e308}), "--json")
    assert done.status in (1, 5)
    assert "Warning" not in done.err


def test_a_few_long_records_are_too_few_to_compare(cli: Any, recorded: Any) -> None:
    for name in ("again", "baseline"):
        as_foreign(recorded(name)).edit_steps(lambda step: None if step["step"] % 20 else {**step, "steps_covered": 20})
    done = cli("compare", "again", "baseline", "--json")
    assert done.status == 5
    assert [one["side"] for one in done.reasons("throughput", "too_few_steady_records")] == ["target", "baseline"]


def test_a_directory_asked_for_that_cannot_be_made_is_wrong_input(cli: Any, recorded: Any, tmp_path: Path) -> None:
    recorded("again")
    (tmp_path / "afile").write_text("")
    for place in ("nosuch/dir/", "afile/"):
        done = cli("report", "again", "-o", place, "--json")
        assert (done.status, done.document["error"]["key"]) == (2, "-o")
    assert cli("check", "again", "--junit", "nosuch/x.xml", "--json").document["error"]["key"] == "--junit"


def test_a_name_that_is_no_text_is_taken_as_it_is(cli: Any, recorded: Any) -> None:
    recorded("again", "caf\udce9"), recorded("baseline")
    assert cli("compare", "caf\udce9", "baseline").status == 5
