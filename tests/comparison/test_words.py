"""What several runs a side may say, and how the command ends."""

import json
from pathlib import Path
from typing import Any

import pytest

LOGS = Path(__file__).parents[3] / "shared" / "logs"


def side(recorded: Any, name: str, *times: float) -> str:
    """Runs whose every step takes so many times what it took, under one directory."""
    for at, factor in enumerate(times, 1):

        def slower(step: dict[str, Any], factor: float = factor) -> dict[str, Any]:
            rate = step["tokens_per_s_per_gpu"] / factor
            return {
                **step,
                "step_time_s": step["step_time_s"] * factor,
                "tokens_per_s_per_gpu": rate,
                "reported_tokens_per_s_per_gpu": rate,
                "tflops_per_gpu": step["tflops_per_gpu"] / factor,
            }

        recorded("baseline", f"{name}/run{at}").edit_steps(slower)
    return name


SPREAD = (0.99, 1.0, 1.01)


@pytest.mark.parametrize(
    ("factors", "outcome", "words"),
    [
        ((0.8, 0.81, 0.79), "better", "faster"),
        ((1.25, 1.26, 1.24), "worse", "slower"),
        ((1.0, 1.005, 0.995), "equivalent", "equivalent within 5%"),
        ((0.93, 0.95, 0.94), "marginally_better", "faster, maybe by less than 5%"),
    ],
)
def test_three_runs_a_side_decide_and_end_with_0(
    cli: Any, recorded: Any, factors: tuple[float, ...], outcome: str, words: str
) -> None:
    done = cli("compare", side(recorded, "target", *factors), side(recorded, "other", *SPREAD), "--json")
    ratio = done.document["throughput_speedup"]
    assert (done.status, ratio["outcome"], ratio["words"], ratio["interval"]) == (0, outcome, words, "runs"), ratio
    assert ratio["low"] < ratio["value"] < ratio["high"]
    assert (ratio["target_runs"], ratio["baseline_runs"]) == (3, 3)


def test_what_three_runs_do_not_decide_says_how_many_more_and_ends_with_5(cli: Any, recorded: Any) -> None:
    done = cli("compare", side(recorded, "target", 0.9, 1.0, 1.1), side(recorded, "other", *SPREAD), "--json")
    ratio = done.document["throughput_speedup"]
    assert (done.status, ratio["outcome"], ratio["decided"]) == (5, "inconclusive", False)
    assert ratio["words"].startswith("inconclusive: ")
    assert ratio["more_runs"] is None or str(ratio["more_runs"]) in ratio["words"]


def test_two_runs_a_side_give_no_interval(cli: Any, recorded: Any) -> None:
    done = cli("compare", side(recorded, "target", 0.5, 0.51), side(recorded, "other", 1.0, 1.01), "--json")
    ratio = done.document["throughput_speedup"]
    assert (done.status, ratio["low"], ratio["outcome"], ratio["decided"]) == (5, None, "too_few_runs", False)


def test_a_margin_may_be_asked(cli: Any, recorded: Any) -> None:
    target, other = side(recorded, "target", 0.8, 0.81, 0.79), side(recorded, "other", *SPREAD)
    ratio = cli("compare", target, other, "--margin", "0.3", "--json").document["throughput_speedup"]
    assert (ratio["outcome"], ratio["margin"]) == ("equivalent", 0.3)
    assert cli("compare", target, other, "--margin", "30%", "--json").document["throughput_speedup"] == ratio


def test_sides_that_did_not_take_turns_on_one_host_are_told(cli: Any, recorded: Any) -> None:
    target, other = side(recorded, "target", *SPREAD), side(recorded, "other", 0.98, 0.99, 1.02)
    places = [Path(f"runs/{name}/run{at}/run.json") for name in ("target", "other") for at in (1, 2, 3)]
    for order, said in (((0, 1, 2, 3, 4, 5), True), ((0, 2, 4, 1, 3, 5), False)):
        for hour, path in zip(order, places, strict=True):
            manifest = json.loads(path.read_text())
            manifest["hosts"] = ["g1"]
            manifest["provenance"] |= {
                "started": f"2026-11-15T0{hour}:00:00+00:00",
                "ended": f"2026-11-15T0{hour}:30:00+00:00",
            }
            path.write_text(json.dumps(manifest))
        ratio = cli("compare", target, other, "--json").document["throughput_speedup"]
        assert ("not_in_turns" in [one["code"] for one in ratio["caveats"]]) is said


def test_losses_without_times_are_not_known_for_speed(cli: Any, tmp_path: Path) -> None:
    for name, factor in (("a", 1.0), ("b", 1.2)):
        rows = "".join(f"{step},{factor * (10 - step / 20)}\n" for step in range(1, 61))
        (tmp_path / f"{name}.csv").write_text(f"step,loss\n{rows}")
        assert cli("ingest", f"{name}.csv", "--name", name).status == 0
    done = cli("compare", "a", "b")
    assert done.status == 5
    assert "\n  a has no step times and no rates\n" in done.out
    assert "\nimport a log of a that contains step times\nnext: steelyard ingest a.csv --config FILE\n" in done.out
    curves = cli("compare", "a", "b", "--for", "convergence")
    assert curves.status == 1
    assert curves.out.startswith("Not equivalent")


def test_a_misspelt_metric_keeps_the_others(cli: Any, recorded: Any) -> None:
    done = cli("compare", "a", "b", "--for", "throughput,convergance", "--json")
    assert (done.status, done.document["error"]["next"]) == (2, "--for throughput,convergence")


@pytest.mark.parametrize("margin", ["0", "5", "-1%", "nan", "inf", "five", "100%", ""])
def test_a_margin_that_is_no_share_is_refused(cli: Any, recorded: Any, margin: str) -> None:
    target, other = side(recorded, "target", 1.0), side(recorded, "other", 1.0)
    done = cli("compare", target, other, f"--margin={margin}", "--json")
    assert (done.status, done.document["error"]["key"], done.document["error"]["next"]) == (
        2,
        "--margin",
        "--margin 0.05",
    )
    assert not Path("runs/comparisons").exists()


def test_repeats_on_one_host_have_a_caveat(cli: Any, recorded: Any) -> None:
    target, other = side(recorded, "target", *SPREAD), side(recorded, "other", *SPREAD)
    for name in ("target/run1", "target/run2", "target/run3"):
        path = Path(f"runs/{name}/run.json")
        path.write_text(path.read_text().replace('"name":', '"hosts": ["gpu7"],\n  "name":', 1))
    ratio = cli("compare", target, other, "--json").document["throughput_speedup"]
    assert ("same_hosts", "target") in [(one["code"], one["side"]) for one in ratio["caveats"]]
    assert "all runs of target used one host (gpu7); other hosts may differ" in ratio["notes"]
    for name in ("other/run1", "other/run2", "other/run3"):
        path = Path(f"runs/{name}/run.json")
        path.write_text(path.read_text().replace('"name":', '"hosts": ["gpu7"],\n  "name":', 1))
    found = cli("compare", target, other, "--for", "memory", "--json").document["memory_usage_efficiency"]
    codes = ("same_hosts", "runs_do_not_vary")
    assert [one["side"] for one in found["caveats"] if one["code"] in codes] == ["both"]


def test_prices_and_power_make_the_time_to_a_loss_a_cost(cli: Any, recorded: Any, tmp_path: Path) -> None:
    target, other = side(recorded, "target", 0.8, 0.81, 0.79), side(recorded, "other", *SPREAD)
    (tmp_path / "prices.yaml").write_text("h200: 3.6\n")
    done = cli("compare", target, other, "--prices", tmp_path / "prices.yaml", "--json")
    found = done.document["time_to_loss"]
    assert found["ratio"] == pytest.approx(0.8, rel=0.02)
    assert found["interval"] == "within_run"  # three runs a side, and one seed
    sides = found["target"], found["baseline"]
    assert all(one["cost"] == pytest.approx(one["seconds"] / 1000) for one in sides)  # one GPU at 3.6 an hour
    (tmp_path / "prices.json").write_text("{h200: 3.6}")  # as the help has it
    again = cli("compare", target, other, "--prices", tmp_path / "prices.json", "--json")
    assert again.document["time_to_loss"] == found
    bad = tmp_path / "bad.yaml"
    bad.write_text("h2000: 3\n")
    refused = cli("compare", target, other, "--prices", bad, "--json")
    assert (refused.status, refused.document["error"]["key"]) == (2, "h2000")
    missing = cli("compare", target, other, "--prices", tmp_path / "none.yaml")
    assert missing.status == 2
    assert missing.err.endswith("no such file, expected a price sheet; next: {h100: 2.5, mi300x: 2.0}\n")


@pytest.mark.skipif(not LOGS.exists(), reason="the samples lie beside the checkout")
def test_the_samples_of_the_comparison_suite_are_named_for_their_data(cli: Any) -> None:
    for name, file in (("amd", "train_amd_prim_llama"), ("nvidia", "train_nvd_nemo_llama")):
        given = ("--set", "model.preset=llama3.1-8b", "--set", "precision.dtype=bf16", "--set", "precision.fp8=null")
        assert cli("ingest", LOGS / f"tprimat_2026-02-02_{file}.json", "--name", name, *given).status == 0
    done = cli("compare", "amd", "nvidia", "--for", "throughput,convergence", "--json")
    found = {one["code"]: one["side"] for one in done.document["diagnoses"]}
    assert (found["counting_data"], found["degenerate_data"]) == ("target", "baseline")
    assert done.document["throughput_speedup"] is None
    assert done.document["convergence"]["status"] in ("not_equivalent", "unknown")
    assert done.status in (1, 5)


def test_losses_of_evaluations_stand_side_by_side_where_both_tell_them(cli: Any, recorded: Any) -> None:
    for name, loss in (("again", 2.5), ("baseline", 2.25)):
        run = recorded(name)
        for step in (51, 101):
            run.add_event(kind="eval", message="validation loss", step=step, details={"loss": loss})
    recorded("again", "silent")
    found = cli("compare", "again", "baseline", "--for", "convergence", "--json").document["convergence"]["evaluations"]
    assert found == [{"step": step, "target": 2.5, "baseline": 2.25} for step in (50, 100)]
    shown = cli("compare", "again", "baseline", "--for", "convergence", "-v").out
    assert "eval step  loss of again  loss of baseline\n  51         2.5000" in shown
    assert cli("compare", "silent", "baseline", "--json").document["convergence"]["evaluations"] == []


def test_every_value_of_the_contract_has_its_source(cli: Any, recorded: Any) -> None:
    recorded("again"), recorded("baseline").set("sources/training.adam_beta2", "default of megatron")
    rows = cli("compare", "again", "baseline", "--json").document["contract"]
    row = next(one for one in rows if (one["group"], one["key"]) == ("training", "adam_beta2"))
    assert row["baseline_source"] == "default of megatron"
    assert row["target_source"]


def test_losses_that_cannot_be_and_lines_cut_short_do_not_end_a_comparison(cli: Any, recorded: Any) -> None:
    target, baseline = recorded("again"), recorded("baseline")
    target.edit_steps(lambda step: {**step, "loss": -step["loss"] if step["step"] % 3 else 0.0})
    with (target.directory / "telemetry.jsonl").open("ab") as file:
        file.write(b'{"node":"a","device":"gpu0","power_w":3e2}\n[]\n{"node":"a","device":"gpu0","pow')
    done = cli("compare", target, baseline, "--for", "convergence", "--json")
    assert done.status in (1, 5), done.out
    assert done.document["convergence"]["status"] != "equivalent"


def test_a_job_of_uneven_steps_has_the_tokens_it_recorded(cli: Any, recorded: Any) -> None:
    """Medians of rate and of time do not multiply back to the tokens of a step; records do."""

    def uneven(step: dict[str, Any]) -> dict[str, Any]:
        factor = 3.0 if step["step"] % 5 < 2 else 1.0
        rate = step["tokens_per_s_per_gpu"] / factor
        times = {"step_time_s": step["step_time_s"] * factor, "tokens_per_s_per_gpu": rate}
        return {
            **step,
            **times,
            "reported_tokens_per_s_per_gpu": rate,
            "tflops_per_gpu": step["tflops_per_gpu"] / factor,
        }

    recorded("again").edit_steps(uneven), recorded("baseline")
    document = cli("compare", "again", "baseline", "--json").document
    assert document["comparable"]["throughput"]["status"] in ("comparable", "qualified"), document["comparable"]
    assert not any(one["code"] == "tokens_per_step" for one in document["diagnoses"])


def test_a_comparison_of_repeats_is_called_by_their_directories(cli: Any, recorded: Any) -> None:
    done = cli("compare", side(recorded, "amd", *SPREAD), side(recorded, "nvidia", *SPREAD))
    assert done.out.startswith("amd and nvidia are equally fast within 5% (0.0%, 95% CI -2.2 to 2.3%, 3 runs each)")
    assert cli("report", "amd-vs-nvidia").status == 0
