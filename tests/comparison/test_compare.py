"""steelyard compare: what is refused, what is qualified, what one run a side may say."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

REAL = Path(__file__).parents[1] / "frameworks" / "logs" / "real"

RATIOS = ("throughput_speedup", "memory_usage_efficiency", "flops_utilization")


def rows(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {f"{row['group']}.{row['key']}": row for row in document["contract"]}


def test_matched_runs_are_comparable_and_one_a_side_is_an_observation(cli: Any, recorded: Any, tmp_path: Path) -> None:
    target, baseline = recorded("again"), recorded("baseline")
    done = cli("compare", target, baseline, "--json")
    assert done.status == 5
    document = done.document
    assert (document["target"], document["baseline"]) == ([str(target)], [str(baseline)])
    assert {name: found["status"] for name, found in document["comparable"].items()} == dict.fromkeys(
        ("throughput", "memory", "flops", "convergence"), "comparable"
    )
    for name in RATIOS:
        keys = {"value", "low", "high", "interval", "level", "target_runs", "baseline_runs", "words"}
        assert keys <= set(document[name])
        assert (document[name]["words"], document[name]["outcome"]) == ("single-run observation", "single_run")
        assert document[name]["interval"] == "within_run"
        assert document[name]["level"] == 0.95
    speedup = document["throughput_speedup"]
    assert 0.99 < speedup["low"] < speedup["value"] < speedup["high"] < 1.01
    assert "AR(1) effective sample size" in speedup["method"]
    assert document["memory_usage_efficiency"]["value"] == 1.0
    assert document["memory_usage_efficiency"]["low"] is None  # a peak has no spread inside a run
    assert document["convergence"]["status"] == "equivalent"  # of one seed, bit for bit
    assert document["diagnoses"] == []
    kept = json.loads((Path(document["comparison"]) / "comparison.json").read_text())
    assert Path(document["comparison"]).parent == tmp_path / "runs" / "comparisons"
    assert kept["throughput_speedup"] == speedup
    assert [Path(document["comparison"], place).resolve() for place in kept["target"]] == [target.directory]
    assert {row["status"] for row in document["contract"]} == {"equal"}


def test_different_tokens_per_step_are_refused_with_the_reason(cli: Any, recorded: Any) -> None:
    done = cli("compare", recorded("half-batch"), recorded("baseline"), "--json")
    assert done.status == 4
    document = done.document
    assert all(document[name] is None for name in RATIOS)
    found = document["comparable"]["throughput"]
    assert found["status"] == "not_comparable"
    assert found["reasons"][0] == {
        "code": "setting_differs",
        "effect": "blocks",
        "side": "both",
        "keys": ["training.tokens_per_step"],
        "target": 8192,
        "baseline": 16384,
        "accepted": None,
        "message": "half-batch and baseline use different batch sizes (8,192 and 16,384 tokens per step)",
    }
    row = rows(document)["training.tokens_per_step"]
    assert (row["target"], row["baseline"], row["status"]) == (8192, 16384, "different")
    assert row["governs"]["throughput"] == "blocks"
    assert document["convergence"]["status"] == "not_comparable"
    assert document["convergence"]["first_failing_tier"] == "contract"
    assert "1.2" not in cli("compare", "half-batch", "baseline").out.replace("12", "")


def test_recorded_tokens_count_more_than_declared_ones(cli: Any, recorded: Any) -> None:
    target = recorded("again").edit_steps(lambda step: {**step, "tokens": 8192})
    document = cli("compare", target, recorded("baseline"), "--json").document
    assert document["comparable"]["throughput"]["status"] == "not_comparable"


def test_two_gpus_with_unknown_peaks_have_no_utilization(cli: Any, recorded: Any) -> None:
    sides = [recorded(name).set("platform/gpu", None).set("platform/gpu_name", "Foo") for name in ("again", "baseline")]
    done = cli("compare", *sides, "--for", "flops", "--json")
    assert done.status == 5
    assert done.document["comparable"]["flops"]["status"] == "unknown"
    missing = done.reasons("flops", "figure_missing")
    assert [(one["effect"], one["side"]) for one in missing] == [("unknown", "target"), ("unknown", "baseline")]
    assert [one["message"].partition(": ")[0] for one in missing] == [
        "MFU of again is unknown",
        "MFU of baseline is unknown",
    ]
    assert done.document["flops_utilization"] is None
    assert done.document["throughput_speedup"]["value"] == pytest.approx(0.99988, abs=1e-4)


def test_a_gpu_s_peak_turns_throughput_into_utilization(cli: Any, recorded: Any) -> None:
    target = recorded("again").set("platform/gpu", "mi300x").set("platform/gpu_name", "AMD Instinct MI300X")
    document = cli("compare", target, recorded("baseline"), "--json").document
    assert document["flops_utilization"]["value"] == pytest.approx(
        document["throughput_speedup"]["value"] * 989.4 / 1307.4
    )
    assert rows(document)["platform.gpu"]["governs"] == {}


@pytest.mark.parametrize(
    ("key", "value", "metric", "status"),
    [
        ("training/micro_batch_size", 1, "throughput", "qualified"),
        ("parallelism/distributed_optimizer", False, "throughput", "qualified"),
        ("training/seed", 7, "throughput", "comparable"),
        ("training/seed", 7, "convergence", "comparable"),
        ("training/learning_rate", 1e-3, "throughput", "comparable"),
        ("training/learning_rate", 1e-3, "convergence", "not_comparable"),
        ("training/recompute", "full", "throughput", "not_comparable"),
        ("training/recompute", "full", "convergence", "qualified"),
        ("precision/dtype", "fp16", "memory", "not_comparable"),
        ("precision/dtype", "fp16", "convergence", "qualified"),
        ("model/vocab_size", 32000, "flops", "not_comparable"),
        ("kernels/compile", True, "throughput", "comparable"),
        ("data/source", "uniform", "convergence", "not_comparable"),
        ("data/source", "uniform", "throughput", "comparable"),
        ("training/sequence_length", ..., "throughput", "unknown"),
        ("training/micro_batch_size", ..., "throughput", "qualified"),
        ("training/learning_rate", ..., "convergence", "unknown"),
    ],
)
def test_each_parameter_governs_what_the_policy_says(
    cli: Any, recorded: Any, key: str, value: Any, metric: str, status: str
) -> None:
    target = recorded("again").set(f"experiment/{key}", value)
    document = cli("compare", target, recorded("baseline"), "--json").document
    found = document["comparable"][metric]
    assert found["status"] == status, found["reasons"]
    name = {"throughput": "throughput_speedup", "memory": "memory_usage_efficiency", "flops": "flops_utilization"}
    if metric in name:
        assert (document[name[metric]] is None) == (status in ("not_comparable", "unknown"))


def test_an_unknown_that_blocks_is_5_and_a_refusal_beside_it_4(cli: Any, recorded: Any) -> None:
    target, baseline = recorded("again").set("experiment/training/recompute", ...), recorded("baseline")
    assert cli("compare", target, baseline).status == 5
    assert cli("compare", target.set("experiment/model/num_layers", 16), baseline).status == 4


def test_matched_mode_refuses_what_would_qualify(cli: Any, recorded: Any) -> None:
    target, baseline = recorded("again").set("experiment/training/micro_batch_size", 1), recorded("baseline")
    target.set("experiment/training/gradient_accumulation_steps", 8)
    assert cli("compare", target, baseline).status == 5
    done = cli("compare", target, baseline, "--mode", "matched", "--json")
    assert (done.status, done.document["throughput_speedup"]) == (4, None)
    target.set("experiment/compare", {"mode": "matched"})
    assert cli("compare", target, baseline).status == 4
    assert cli("compare", target, baseline, "--mode", "best").status == 5


def test_memory_of_different_kinds_is_not_compared(cli: Any, recorded: Any) -> None:
    target = recorded("again").without_telemetry()
    target.edit_steps(lambda step: {**step, "memory_kind": "torch_allocated_peak"})
    done = cli("compare", target, recorded("baseline"), "--for", "memory", "--json")
    assert (done.status, done.document["memory_usage_efficiency"]) == (4, None)
    assert done.document["throughput_speedup"] is not None


def test_a_side_that_contradicts_itself_is_refused_by_its_own_figures(cli: Any, recorded: Any) -> None:
    def boast(step: dict[str, Any]) -> dict[str, Any]:
        return {**step, "reported_tokens_per_s_per_gpu": step["reported_tokens_per_s_per_gpu"] * 4}

    done = cli("compare", recorded("again").edit_steps(boast), recorded("baseline"), "--json")
    assert (done.status, done.document["throughput_speedup"]) == (4, None)
    worst = done.reasons()[0]
    assert (worst["code"], worst["effect"], worst["side"]) == ("figures_contradict", "blocks", "target")


def test_a_nan_is_said_beside_the_ratio(cli: Any, recorded: Any) -> None:
    target = recorded("again").edit_steps(
        lambda step: {**step, "loss": None, "nonfinite": {"loss": "NaN"}} if step["step"] > 50 else step
    )
    done = cli("compare", target, recorded("baseline"), "--json")
    assert (done.status, done.document["comparable"]["throughput"]["status"]) == (5, "qualified")
    worst = done.reasons()[0]
    assert (worst["code"], worst["effect"], worst["side"]) == ("check_failed", "caveat", "target")
    assert "loss is NaN at step 51" in worst["message"]


def test_fewer_than_twenty_steady_steps_are_unknown(cli: Any, recorded: Any) -> None:
    target = recorded("again").edit_steps(lambda step: step if step["step"] <= 15 else None)
    done = cli("compare", target, recorded("baseline"), "--json")
    assert (done.status, done.document["throughput_speedup"]) == (5, None)
    (few,) = done.reasons("throughput", "too_few_steady_steps")
    assert (few["effect"], few["side"]) == ("unknown", "target")
    asked = cli("compare", recorded("again", "b"), "baseline", "--warmup-steps", "50", "--json")
    assert asked.status == 5


def test_a_missing_figure_is_unknown(cli: Any, recorded: Any) -> None:
    target = recorded("again").without_telemetry()
    target.edit_steps(
        lambda step: {key: value for key, value in step.items() if key not in ("memory_gib", "memory_kind")}
    )
    done = cli("compare", target, recorded("baseline"), "--for", "memory,throughput", "--json")
    assert done.status == 5
    assert done.document["comparable"]["memory"]["status"] == "unknown"


def test_several_runs_a_side_are_named_and_have_no_interval_between_runs_yet(cli: Any, recorded: Any) -> None:
    recorded("again", "a1"), recorded("again", "a2").slower(1.001)
    recorded("baseline")
    done = cli("compare", "a1,a2", "baseline", "--json")
    assert done.status == 5
    speedup = done.document["throughput_speedup"]
    assert (speedup["target_runs"], speedup["baseline_runs"], speedup["low"]) == (2, 1, None)
    assert speedup["words"] == "observation: 2 and 1 runs, at least 3 per side needed"
    both = cli("compare", "a1,a2", "a2,a1", "--json").document["throughput_speedup"]
    assert both["value"] == pytest.approx(1)
    assert "runs" in both["words"]


def test_a_directory_of_runs_is_a_side(cli: Any, recorded: Any, tmp_path: Path) -> None:
    recorded("again", "side/one")
    recorded("again", "side/two").slower(1.001)
    recorded("baseline")
    document = cli("compare", tmp_path / "runs" / "side", "baseline", "--json").document
    assert [Path(run).name for run in document["target"]] == ["one", "two"]


def test_runs_of_one_side_that_differ_in_what_blocks_are_wrong_input(cli: Any, recorded: Any) -> None:
    for name in ("again", "half-batch", "baseline"):
        recorded(name)
    done = cli("compare", "again,half-batch", "baseline", "--json")
    assert done.status == 2
    assert "tokens_per_step" in done.document["error"]["message"]
    assert not Path("runs/comparisons").exists()


@pytest.mark.parametrize(
    ("words", "key"),
    [
        (("again", "nothing"), "BASELINE"),
        (("again,again", "baseline"), "TARGET"),
        (("again", "baseline", "--for", "speed"), "--for"),
        (("again", "baseline", "--mode", "worst"), "--mode"),
        (("again", "baseline", "--name", "a/b"), "--name"),
    ],
)
def test_wrong_input_is_named_and_nothing_is_made(cli: Any, recorded: Any, words: tuple[str, ...], key: str) -> None:
    recorded("again"), recorded("baseline")
    done = cli("compare", *words, "--json")
    assert done.status == 2
    assert done.document["error"]["key"] == key
    assert not list(Path("runs").glob("comparisons/*/comparison.json"))


def test_a_name_is_taken_once_and_our_own_names_never_collide(cli: Any, recorded: Any) -> None:
    recorded("again"), recorded("baseline")
    assert cli("compare", "again", "baseline", "--name", "first").status == 5
    assert cli("compare", "again", "baseline", "--name", "first").status == 2
    for _ in range(3):
        assert cli("compare", "again", "baseline").status == 5
    assert len(list(Path("runs/comparisons").iterdir())) == 4


def test_null_is_no_value_where_none_may_be(cli: Any, recorded: Any) -> None:
    sides = []
    for name in ("again", "baseline"):
        run = recorded(name)
        for key in ("num_layers", "hidden_size", "vocab_size"):
            run.set(f"experiment/model/{key}", None)
        sides.append(run.set("experiment/training/sequence_length", None))
    done = cli("compare", *sides, "--json")
    assert (done.status, done.document["throughput_speedup"]) == (5, None)
    assert rows(done.document)["model.num_layers"]["status"] == "unknown"
    assert rows(done.document)["precision.fp8"]["status"] == "equal"


def test_what_is_not_known_of_a_side_is_said_beside_its_ratio(cli: Any, recorded: Any) -> None:
    target = recorded("again").add_event(kind="unread_line", message="step: 3 |")
    done = cli("compare", target, recorded("baseline"), "--json")
    assert done.document["comparable"]["throughput"]["status"] == "qualified"
    worst = done.reasons()[0]
    assert (worst["code"], worst["effect"], worst["side"]) == ("check_unknown", "caveat", "target")
    assert worst["message"].startswith("steps_present is unknown for again: ")


def test_matched_mode_refuses_a_side_that_did_not_complete(cli: Any, recorded: Any) -> None:
    target = recorded("again").edit_steps(lambda step: step if step["step"] <= 45 else None)
    recorded("baseline")
    assert cli("compare", target, "baseline").status == 5
    assert cli("compare", target, "baseline", "--mode", "matched").status == 4


def slow_until(last: int) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def slow(step: dict[str, Any]) -> dict[str, Any]:
        by = 1.5 if step["step"] <= last else 1.0
        keys = ("tokens_per_s_per_gpu", "tflops_per_gpu", "reported_tokens_per_s_per_gpu")
        return {**step, "step_time_s": step["step_time_s"] * by, **{k: step[k] / by for k in keys if k in step}}

    return slow


@pytest.mark.parametrize(
    ("last", "outcome", "status"),
    [(36, "equivalent", 0), (47, "unsettled", 5)],
)
def test_a_long_warm_up_makes_nothing_slower(cli: Any, recorded: Any, last: int, outcome: str, status: int) -> None:
    for at in range(3):
        recorded("baseline", f"warm/{at}").slower(1 + at / 1000).edit_steps(slow_until(last))
        recorded("baseline", f"plain/{at}").slower(1 + at / 1000 + 0.0005)
    done = cli("compare", "warm", "plain", "--json")
    assert (done.document["throughput_speedup"]["outcome"], done.status) == (outcome, status)


def test_times_that_had_not_settled_are_said_beside_the_ratio(cli: Any, recorded: Any) -> None:
    document = cli("compare", recorded("again").edit_steps(slow_until(47)), recorded("baseline"), "--json").document
    assert document["comparable"]["throughput"]["status"] == "comparable"
    caveat = document["throughput_speedup"]["caveats"][0]
    assert (caveat["code"], caveat["effect"], caveat["side"]) == ("times_unsettled", "caveat", "target")
    assert document["throughput_speedup"]["notes"][0] == caveat["message"]
    cli("report", "again-vs-baseline", "--to", "md")
    assert caveat["message"] in next(Path("runs/comparisons").glob("*/report.md")).read_text()


def test_a_run_against_itself_says_so(cli: Any, recorded: Any) -> None:
    recorded("baseline")
    done = cli("compare", "baseline", "baseline", "--json")
    assert done.document["comparable"]["throughput"]["status"] == "qualified"
    assert done.reasons()[0]["code"] == "run_on_both_sides"


def test_names_of_many_bytes_are_cut_to_fit(cli: Any, recorded: Any) -> None:
    recorded("again", "é" * 100), recorded("baseline", "\U0001f600" * 55)
    assert cli("compare", "é" * 100, "\U0001f600" * 55).status == 5


def test_what_ran_out_of_memory_has_no_peak(cli: Any, recorded: Any) -> None:
    recorded("again").add_event(kind="oom", message="CUDA out of memory"), recorded("baseline")
    done = cli("compare", "again", "baseline", "--for", "memory", "--json")
    assert (done.status, done.document["memory_usage_efficiency"]) == (5, None)
    worst = done.reasons("memory")[0]
    assert (worst["code"], worst["effect"], worst["side"]) == ("out_of_memory", "unknown", "target")


def test_a_peak_that_was_read_early_says_so(cli: Any) -> None:
    for name in ("one", "two"):
        assert (
            cli("ingest", REAL / "megatron_clean_int1.log.gz", "--gpu", "h200", "--gpus", "1", "--name", name).status
            == 0
        )
    found = cli("compare", "one", "two", "--for", "memory", "--json").document["memory_usage_efficiency"]
    early = [one for one in found["caveats"] if one["code"] == "memory_read_early"]
    assert [one["side"] for one in early] == ["target", "baseline"]
    assert all(one["message"].endswith("of 60; the peak may be higher") for one in early)
