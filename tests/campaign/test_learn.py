"""A threshold learnt from runs: what it is, when there is none, and that an experiment takes it."""

import json
import math
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ruamel.yaml import YAML

from steelyard.campaign import learn, samples
from steelyard.campaign.learn import LearnedThreshold, tolerance_factor
from steelyard.comparison import load_runs
from steelyard.verdict import read_subjects

FACTORS = (1.0, 1.004, 0.997, 1.002, 0.999)
Make = Callable[..., None]


def learnt(metric: str = "tokens_per_s_per_gpu") -> LearnedThreshold:
    """What the runs of runs/nightly give."""
    return learn.learn(read_subjects(load_runs("RUNS", ["nightly"], Path("runs")), 0), metric, "2026-11-17")


def slower(step: dict[str, Any], factor: float) -> dict[str, Any]:
    rates = ("tokens_per_s_per_gpu", "tflops_per_gpu", "reported_tokens_per_s_per_gpu")
    return {
        **step,
        "step_time_s": step["step_time_s"] * factor,
        **{name: step[name] / factor for name in rates if name in step},
    }


@pytest.fixture
def repeats(recorded: Any) -> Make:
    """runs/nightly: runs whose steps take so many times as long."""

    def make(factors: Sequence[float] = FACTORS, hosts: Sequence[str] = ("g1",)) -> None:
        for at, factor in enumerate(factors):
            run = recorded(to=f"nightly/repeat-{at + 1}").set("hosts", [hosts[at % len(hosts)]])
            run.edit_steps(lambda step, factor=factor: slower(step, factor))

    return make


def test_the_factor_is_that_of_the_tables() -> None:
    """Hahn and Meeker, table A.12c: one-sided, 95 % of a population with 95 % confidence."""
    expected = {5: 4.203, 6: 3.708, 7: 3.399, 8: 3.187, 10: 2.911, 20: 2.396, 50: 2.065}
    assert {n: tolerance_factor(n) for n in expected} == pytest.approx(expected, abs=6e-4)


@pytest.mark.parametrize("n", [5, 8])
def test_the_bound_is_kept_by_its_share_with_its_confidence(n: int) -> None:
    from scipy.special import ndtr

    drawn = np.random.default_rng(7).standard_normal((20_000, n))
    bounds = drawn.mean(axis=1) - tolerance_factor(n) * drawn.std(axis=1, ddof=1)
    assert np.mean(1 - ndtr(bounds) >= 0.95) == pytest.approx(0.95, abs=0.01)


def test_the_more_lenient_of_the_two_bounds_is_taken(cli: Any, repeats: Make) -> None:
    repeats()
    done = cli("runs", "learn", "nightly", "--json")
    assert done.status == 0, done.out
    found = done.document
    values = [run["value"] for run in found["runs"]]
    mean, sd = np.mean(values), np.std(values, ddof=1)
    assert (found["n"], found["mean"], found["sd"]) == (5, pytest.approx(mean), pytest.approx(sd))
    assert found["factor"] == pytest.approx(4.2027, abs=1e-4)
    assert found["tolerance_bound"] == pytest.approx(mean - found["factor"] * sd)
    assert found["margin_bound"] == pytest.approx(0.95 * mean)
    assert found["tolerance_bound"] > found["margin_bound"]  # alike: the margin decides
    assert found["value"] == math.floor(found["margin_bound"] * 10) / 10
    assert found["threshold"] == f"tokens_per_s_per_gpu>={found['value']}"
    assert found["provenance"]["hosts"] == ["g1"]
    assert found["provenance"]["experiment"] == "llama3.1-8b"
    assert len(found["provenance"]["sha256"][0]) == 64
    assert found["note_codes"] == [learn.ONE_PLACE.name, samples.ONE_DAY.name, samples.NORMAL.name]
    assert "g1" in found["notes"][0]
    assert (found["free_bound"], found["free_confidence"]) == (None, None)


def test_runs_that_vary_widen_it(cli: Any, repeats: Make) -> None:
    repeats((1.0, 1.03, 0.97, 1.02, 0.99))
    found = cli("runs", "learn", "nightly", "--json").document
    assert found["tolerance_bound"] < found["margin_bound"]
    assert found["value"] <= found["tolerance_bound"]
    assert found["value"] == pytest.approx(found["tolerance_bound"], rel=1e-4)


@pytest.mark.parametrize("metric", ["step_time_s", "memory_peak_gib"])
def test_of_what_is_better_low_the_bound_is_above(cli: Any, repeats: Make, metric: str) -> None:
    repeats()
    for at, run in enumerate(sorted(Path("runs/nightly").iterdir())):  # a peak that varies a little
        text = (run / "steps.jsonl").read_text()
        (run / "steps.jsonl").write_text(text.replace('"memory_gib": 131.8', f'"memory_gib": 131.{at}'))
    found = cli("runs", "learn", "nightly", "--metric", metric, "--json").document
    assert found["direction"] == "<="
    assert found["threshold"].startswith(f"{metric}<=")
    assert found["value"] >= max(found["tolerance_bound"], found["margin_bound"])
    assert found["margin_bound"] == pytest.approx(1.05 * found["mean"])


@pytest.mark.parametrize("apart", [0, 1e-13])
def test_runs_that_vary_in_nothing_have_no_bound(cli: Any, repeats: Make, apart: float) -> None:
    """Rates that a program rounds: other losses at other times, and one rate."""
    repeats((1.0,) * 5)
    for at, run in enumerate(sorted(Path("runs/nightly").iterdir())):
        steps = [json.loads(line) for line in (run / "steps.jsonl").read_text().splitlines()]
        for step in steps:
            step["loss"] += at / 1e4
            step["step_time_s"] *= 1 + at * apart
        (run / "steps.jsonl").write_text("".join(json.dumps(step) + "\n" for step in steps))
    done = cli("runs", "learn", "nightly", "-o", "learnt.yaml", "--json")
    assert (done.status, done.document["threshold"], done.document["factor"]) == (5, None, None)
    assert (reason := learnt().reason) is not None
    assert (reason.code, reason.message) == (learn.NO_SPREAD, done.document["reason"])
    assert not Path("learnt.yaml").exists()


def test_a_peak_of_memory_that_is_always_the_same_is_bounded_by_the_margin_alone(cli: Any, repeats: Make) -> None:
    """Bytes are counted: repeats that agree to the last are no copies, but tell no spread either."""
    repeats()
    done = cli("runs", "learn", "nightly", "--metric", "memory_peak_gib", "--json")
    found = done.document
    assert (done.status, found["sd"], found["reason"], found["reason_code"]) == (0, 0, None, None)
    assert len({run["value"] for run in found["runs"]}) == 1
    assert found["value"] == pytest.approx(1.05 * found["mean"], rel=1e-4)
    assert found["value"] >= found["margin_bound"]
    assert [note.code for note in learnt("memory_peak_gib").notes] == [
        learn.ONE_PLACE,
        samples.ONE_DAY,
        learn.MARGIN_ALONE,
    ]
    assert found["notes"] == [note.message for note in learnt("memory_peak_gib").notes]
    assert found["note_codes"] == [learn.ONE_PLACE.name, samples.ONE_DAY.name, learn.MARGIN_ALONE.name]


def test_from_twenty_runs_on_there_is_a_bound_without_the_assumption(cli: Any, repeats: Make) -> None:
    repeats([1 + 0.002 * at for at in range(20)])
    found = cli("runs", "learn", "nightly", "--json").document
    values = [run["value"] for run in found["runs"]]
    assert (found["free_bound"], found["free_confidence"]) == (min(values), pytest.approx(1 - 0.95**20))
    assert samples.FREE_BOUND.name in found["note_codes"]
    assert samples.TWO_GROUPS.name not in found["note_codes"]
    assert found["value"] == pytest.approx(min(found["tolerance_bound"], found["margin_bound"]), rel=1e-4)


def test_two_groups_are_reported_and_bounded_by_the_lowest_of_twenty_runs(cli: Any, repeats: Make) -> None:
    repeats([(1.2 if at % 5 == 4 else 1.0) + 0.0005 * at for at in range(20)])
    found = cli("runs", "learn", "nightly", "--json").document
    assert samples.TWO_GROUPS.name in found["note_codes"]
    assert found["free_bound"] < found["margin_bound"]
    assert found["value"] == pytest.approx(found["free_bound"], rel=1e-4)


def test_runs_of_several_days_are_not_called_runs_of_one(cli: Any, repeats: Make) -> None:
    repeats()
    for at, run in enumerate(sorted(Path("runs/nightly").iterdir())):
        manifest = json.loads((run / "run.json").read_text())
        manifest["provenance"]["started"] = f"2026-11-{15 + at}T06:00:00+00:00"
        (run / "run.json").write_text(json.dumps(manifest))
    assert samples.ONE_DAY.name not in cli("runs", "learn", "nightly", "--json").document["note_codes"]


@pytest.mark.parametrize(
    ("key", "named"),
    [
        ("experiment/training/recompute", "training.recompute"),
        ("experiment/parallelism/tensor_parallel_size", "parallelism.tensor_parallel_size"),
    ],
)
def test_what_is_known_of_some_runs_alone_leaves_no_bound(
    cli: Any, repeats: Make, recorded: Any, key: str, named: str
) -> None:
    repeats()
    recorded(to="nightly/z").slower(1.001).set(key, ...)
    done = cli("runs", "learn", "nightly", "--json")
    assert (done.status, done.document["threshold"]) == (5, None), done.out
    assert (reason := learnt().reason) is not None
    assert (reason.code, reason.keys) == (learn.PARTLY_KNOWN, (named,))
    assert done.document["reason_code"] == reason.code.name
    assert (
        done.document["reason"] == f"{named} is recorded for repeat-5 but not for z, so the runs may be different jobs"
    )


def test_a_copy_is_no_further_run(cli: Any, repeats: Make) -> None:
    repeats()
    shutil.copytree("runs/nightly/repeat-1", "runs/nightly/repeat-6")
    error = cli("runs", "learn", "nightly", "--json").document["error"]
    assert (error["key"], error["expected"], error["next"]) == (
        "RUNS",
        "each run once",
        "leave out runs/nightly/repeat-6",
    )
    assert "runs/nightly/repeat-1 and runs/nightly/repeat-6 have the same record" in error["message"]


def test_every_run_it_was_learnt_from_keeps_it(cli: Any, repeats: Make) -> None:
    repeats((1.0, 1.03, 0.97, 1.02, 0.99))
    for metric in ("tokens_per_s_per_gpu", "mfu", "step_time_s"):
        threshold = cli("runs", "learn", "nightly", "--metric", metric, "--json").document["threshold"]
        for at in range(1, 6):
            assert cli("check", f"nightly/repeat-{at}", "--threshold", threshold).status == 0


def test_a_learnt_file_judges_a_run(cli: Any, repeats: Make, recorded: Any) -> None:
    repeats()
    assert cli("runs", "learn", "nightly", "-o", "learnt.yaml").status == 0
    bound = cli("runs", "learn", "nightly", "--json").document["threshold"]
    judged = cli("check", "nightly/repeat-1", "--thresholds", "learnt.yaml", "--json")
    assert (judged.status, judged.document["thresholds"]) == (0, [bound])
    recorded(to="tonight").edit_steps(lambda step: slower(step, 2.0))
    assert cli("check", "tonight", "--thresholds", "learnt.yaml").status == 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("name: x\n", "thresholds is null, expected a list of limits"),
        ('thresholds: ["step_timex_s<=2"]\n', "did you mean step_time_s?"),
        ("- 1\n", "not a file with thresholds: is not a mapping of keys"),
    ],
)
def test_a_file_without_bounds_is_refused(cli: Any, repeats: Make, tmp_path: Path, text: str, says: str) -> None:
    repeats(FACTORS[:1])
    (tmp_path / "bounds.yaml").write_text(text)
    done = cli("check", "nightly/repeat-1", "--thresholds", tmp_path / "bounds.yaml")
    assert (done.status, done.out) == (2, "")
    assert says in done.err


def test_a_directory_of_runs_is_not_checked_and_names_one_of_them(cli: Any, repeats: Make) -> None:
    repeats()
    done = cli("check", "nightly", "--json")
    assert done.status == 2
    assert done.document["error"]["message"].startswith("'nightly' is a directory with 5 runs, expected one run")
    assert cli("check", done.document["error"]["next"]).status == 0


def test_too_few_runs_are_not_known_and_say_how_many_are_missing(cli: Any, repeats: Make, tmp_path: Path) -> None:
    repeats(FACTORS[:3])
    done = cli("runs", "learn", "nightly", "-o", "learnt.yaml", "--json")
    found = done.document
    assert (done.status, found["threshold"], found["missing_runs"], found["file"]) == (5, None, 2, None)
    assert found["reason"] == "3 runs; 2 more are needed (at least 5)"
    assert not (tmp_path / "learnt.yaml").exists()
    assert "no threshold: 3 runs" in cli("runs", "learn", "nightly").out


def test_runs_that_vary_too_much_have_no_bound(cli: Any, repeats: Make) -> None:
    repeats((1.0, 3.0, 0.4, 2.0, 0.6))
    done = cli("runs", "learn", "nightly", "--json")
    assert (done.status, done.document["threshold"]) == (5, None)
    assert (reason := learnt().reason) is not None
    assert reason.code == learn.TOO_MUCH_SPREAD


def test_a_run_that_did_not_pass_is_refused_by_name(cli: Any, repeats: Make, recorded: Any) -> None:
    repeats()
    recorded(to="nightly/broken").edit_steps(lambda step: {**step, "loss": None, "nonfinite": {"loss": "NaN"}})
    done = cli("runs", "learn", "nightly", "--json")
    assert done.status == 2
    assert "runs/nightly/broken (fail) did not pass" in done.document["error"]["message"]


@pytest.mark.parametrize(
    ("key", "value", "named"),
    [
        ("experiment/precision/dtype", "fp32", "precision.dtype"),
        ("experiment/training/micro_batch_size", 1, "training.micro_batch_size"),
        ("platform/gpu", "h100", "platform.gpu"),
    ],
)
def test_runs_of_another_job_are_refused(
    cli: Any, repeats: Make, recorded: Any, key: str, value: Any, named: str
) -> None:
    repeats()
    recorded(to="nightly/z").slower(1.001).set(key, value)
    done = cli("runs", "learn", "nightly", "--json")
    assert (done.status, done.document["error"]["value"]) == (2, named)
    assert f"{named} differs: " in done.document["error"]["message"]


def test_other_seeds_are_no_other_job(cli: Any, repeats: Make, recorded: Any) -> None:
    repeats()
    recorded(to="seeded").slower(1.001).set("experiment/training/seed", 7)
    assert cli("runs", "learn", "nightly", "seeded", "--json").document["n"] == 6


@pytest.mark.parametrize(
    ("words", "key"),
    [
        (("nightly", "--metric", "speed"), "--metric"),
        (("nightly", "nightly/repeat-1"), "RUNS"),
        (("nowhere",), "RUNS"),
        (("nightly", "-o", "taken.yaml"), "-o"),
        (("nightly", "-o", "no/such/place.yaml"), "-o"),
    ],
)
def test_wrong_input_is_named(cli: Any, repeats: Make, tmp_path: Path, words: tuple[str, ...], key: str) -> None:
    repeats()
    (tmp_path / "taken.yaml").write_text("mine")
    done = cli("runs", "learn", *words, "--json")
    assert (done.status, done.document["error"]["key"]) == (2, key)
    assert (tmp_path / "taken.yaml").read_text() == "mine"


def test_the_file_is_appended_to_an_experiment_and_binds_its_plan(
    cli: Any, repeats: Make, tiny: Path, tmp_path: Path
) -> None:
    repeats()
    done = cli("runs", "learn", "nightly", "-o", "learnt.yaml")
    assert "wrote learnt.yaml; next: steelyard check RUN --thresholds learnt.yaml" in done.out
    text = (tmp_path / "learnt.yaml").read_text()
    for word in ("of 5 runs: mean", "k = 4.203", "sha256", "all runs", "nightly/repeat-5"):
        assert word in text
    tiny.write_text(tiny.read_text() + text)
    assert cli("plan", tiny, "--json").status == 0
    (threshold,) = YAML(typ="safe").load(text)["thresholds"]
    assert f"threshold         {threshold}" in cli("plan", tiny).out
    assert f'thresholds: ["{threshold}"]' in done.out
