"""steelyard check: what passes, what fails, what is not known, each with its exit status and its evidence."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from steelyard import records, verdict
from steelyard.verdict import figures
from steelyard.verdict.checks import steps_present

KEYS = ["check", "code", "status", "required", "observed", "expected", "message", "evidence"]
OF_NODES = {"stragglers", "hosts"}
"""Checks that have nothing to say of a run on one machine."""


def finding(document: dict[str, Any], check: str) -> dict[str, Any]:
    return next(one for one in document["findings"] if one["check"] == check)


def judged(run: Any) -> verdict.Verdict:
    return verdict.judge(verdict.read_subject(records.load(Path(run))))


def nonfinite(step: dict[str, Any], at: int, key: str = "loss") -> dict[str, Any]:
    return {**step, key: None, "nonfinite": {key: "NaN"}} if step["step"] == at else step


def without(step: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in step.items() if key not in keys}


def test_a_healthy_run_passes_and_the_verdict_is_kept(cli: Any, recorded: Any) -> None:
    run = recorded()
    done = cli("check", run, "--json")
    assert done.status == 0
    document = done.document
    assert document["run"] == str(run)
    assert document["verdict"] == "pass"
    assert set(document["not_applicable"]) <= OF_NODES
    assert all(list(one) == KEYS for one in document["findings"])
    assert {one["check"] for one in document["findings"] if one["required"]} == {
        "completed",
        "steps_present",
        "loss_finite",
        "throughput_identity",
        "peak_flops",
        "memory_capacity",
    }
    log = (Path(run) / "logs/node0.log").read_text().splitlines()
    at = finding(document, "completed")["evidence"]
    assert at["file"] == "logs/node0.log"
    assert log[at["line"] - 1].startswith("step: 60/60")
    kept = json.loads((Path(run) / "verdict.json").read_text())
    assert (kept["verdict"], kept["findings"]) == ("pass", document["findings"])
    assert cli("runs", "list", "--json").document["runs"][0]["verdict"] == "pass"


def test_a_run_of_that_name_under_out_is_found(cli: Any, recorded: Any) -> None:
    recorded("again")
    assert cli("check", "again").status == 0


def test_a_nan_fails_with_the_line_it_stands_on(cli: Any, recorded: Any) -> None:
    run = recorded().edit_steps(lambda step: nonfinite(step, 30))
    done = cli("check", run, "--json")
    assert (done.status, done.document["verdict"]) == (1, "fail")
    found = finding(done.document, "loss_finite")
    assert (found["code"], found["status"], found["observed"]) == ("loss_not_finite", "fail", "NaN")
    assert found["evidence"] == {"file": "logs/node0.log", "line": 32}
    assert "NaN at step 30" in cli("check", run).out


def test_a_run_cut_short_fails(cli: Any, recorded: Any) -> None:
    run = recorded().edit_steps(lambda step: step if step["step"] <= 40 else None)
    done = cli("check", run, "--json")
    assert done.status == 1
    found = finding(done.document, "completed")
    assert (found["code"], found["observed"], found["expected"]) == ("record_ends_early", "step 40", "step 60")


def test_a_run_that_was_interrupted_fails(cli: Any, recorded: Any) -> None:
    run = recorded().set("status", "running").edit_steps(lambda step: step if step["step"] <= 40 else None)
    done = cli("check", run, "--json")
    assert (done.status, done.document["status"]) == (1, "interrupted")
    assert finding(done.document, "completed")["code"] == "run_interrupted"


def test_without_a_plan_completion_is_not_known(cli: Any, recorded: Any) -> None:
    done = cli("check", recorded().set("experiment/training/steps", ...), "--json")
    assert (done.status, done.document["verdict"]) == (5, "unknown")
    found = finding(done.document, "completed")
    assert (found["code"], found["status"]) == ("planned_steps_unknown", "unknown")


def test_an_out_of_memory_text_fails_even_where_the_status_does_not(cli: Any, recorded: Any) -> None:
    run = recorded().without_events("finished")
    run.add_event(kind="oom", message="CUDA out of memory", source={"file": "logs/node0.log", "line": 5})
    done = cli("check", run, "--json")
    assert done.status == 1
    for check, code in (("completed", "failure_in_log"), ("errors", "error_in_log")):
        found = finding(done.document, check)
        assert (found["code"], found["evidence"]) == (code, {"file": "logs/node0.log", "line": 5})


def test_a_missing_step_fails_and_an_unread_line_is_not_known(cli: Any, recorded: Any) -> None:
    gap = recorded("baseline", "gap").edit_steps(lambda step: None if step["step"] in (20, 21) else step)
    done = cli("check", gap, "--json")
    assert done.status == 1
    assert finding(done.document, "steps_present")["code"] == "steps_missing"
    (missing,) = (found for found in judged(gap).findings if found.code is steps_present.STEPS_MISSING)
    assert (missing.reason.values["before"], missing.reason.values["step"]) == (19, 22)
    unread = recorded("baseline", "unread").add_event(
        kind="unread_line", message="step: 3 |", source={"file": "logs/node0.log", "line": 5}
    )
    done = cli("check", unread, "--json")
    assert (done.status, finding(done.document, "steps_present")["code"]) == (5, "step_line_unread")
    twice = recorded("baseline", "twice").edit_steps(lambda step: {**step, "step": min(step["step"], 50)})
    found = finding(cli("check", twice, "--json").document, "steps_present")
    assert (found["code"], found["status"]) == ("steps_out_of_order", "unknown")


def test_a_log_interval_is_no_gap(cli: Any, recorded: Any) -> None:
    run = recorded().edit_steps(lambda step: None if step["step"] % 10 else {**step, "steps_covered": 10})
    done = cli("check", run, "--json")
    assert finding(done.document, "steps_present")["status"] == "pass"
    assert done.document["figures"]["window"]["steps"] >= 50


@pytest.mark.parametrize(
    ("key", "bound"),
    [
        ("memory_gib", "memory_peak_gib<=200"),
        ("step_time_s", "step_time_s<=200"),
        ("step_time_s", "tokens_per_s_per_gpu>=1"),
    ],
)
def test_a_missing_metric_under_a_threshold_is_not_known(cli: Any, recorded: Any, key: str, bound: str) -> None:
    run = recorded().edit_steps(lambda step: without(step, key))
    done = cli("check", run, "--threshold", bound, "--json")
    assert (done.status, done.document["verdict"]) == (5, "unknown")
    found = finding(done.document, f"threshold {bound}")
    assert (found["code"], found["status"]) == ("threshold_metric_unknown", "unknown")


def test_one_step_without_a_time_leaves_rates_unknown(cli: Any, recorded: Any) -> None:
    run = recorded().edit_steps(lambda step: without(step, "step_time_s") if step["step"] == 33 else step)
    done = cli("check", run, "--threshold", "tokens_per_s_per_gpu>=1", "--json")
    assert done.status == 5
    for metric in ("tokens_per_s_per_gpu", "step_time_s", "mfu"):
        reason = judged(run).figures.metric(metric).reason
        assert reason is not None
        assert (reason.code, reason.values) == (figures.STEPS_UNTIMED, {"steps": 1})
        assert done.document["figures"]["unknown"][metric] == reason.message
        assert done.document["figures"]["unknown_codes"][metric] == figures.STEPS_UNTIMED.name
    assert done.document["figures"]["unknown_codes"].keys() == done.document["figures"]["unknown"].keys()


def test_each_check_that_does_not_apply_has_a_code(cli: Any, recorded: Any) -> None:
    run = recorded()
    found = cli("check", run, "--json").document
    codes = {result.check: result.code.name for result in judged(run).not_applicable}
    assert found["not_applicable_codes"] == codes
    assert found["not_applicable_codes"].keys() == found["reasons_not_applicable"].keys() != set()


@pytest.mark.parametrize(
    ("bound", "status"),
    [
        ("tokens_per_s_per_gpu>=7000", 0),
        ("tokens_per_s_per_gpu>=9000", 1),
        ("tokens_per_s_per_gpu<=9000", 0),
        ("tokens_per_s_per_gpu<=7000", 1),
        ("step_time_s<=3", 0),
        ("step_time_s>=3", 1),
        ("mfu within 0.365 +- 1%", 0),
        ("mfu within 0.39 +- 5%", 1),
        ("mfu within 0.34 +- 5%", 1),
        ("tflops_per_gpu>=300", 0),
        ("memory_peak_gib within 132 +- 1%", 0),
        ("memory_peak_gib within 118 +- 5%", 1),
    ],
)
def test_a_threshold_is_judged_in_the_direction_it_names(cli: Any, recorded: Any, bound: str, status: int) -> None:
    run = recorded()
    assert cli("check", run, "--threshold", bound).status == status
    shutil.rmtree(run)
    own = recorded().set("experiment/thresholds", [bound])
    assert cli("check", own).status == status


def test_a_rate_is_tokens_over_seconds_of_the_steady_window(cli: Any, recorded: Any) -> None:
    def slow_start(step: dict[str, Any]) -> dict[str, Any]:
        seconds = 50.0 if step["step"] <= 5 else 2.0 if step["step"] % 2 else 4.0
        rate = step["tokens"] / seconds
        return {**step, "step_time_s": seconds, "tokens_per_s_per_gpu": rate, "reported_tokens_per_s_per_gpu": rate}

    figures = cli("check", recorded().edit_steps(slow_start), "--json").document["figures"]
    assert figures["window"]["first_step"] == 6
    seconds = [2.0 if step % 2 else 4.0 for step in range(6, 61)]
    assert figures["tokens_per_s_per_gpu"] == pytest.approx(16384 * 55 / sum(seconds), rel=1e-12)
    assert figures["step_time_s"] == 4.0


def test_a_run_above_its_gpu_s_peak_fails(cli: Any, recorded: Any) -> None:
    def faster(step: dict[str, Any]) -> dict[str, Any]:
        keys = ("tokens_per_s_per_gpu", "reported_tokens_per_s_per_gpu", "tflops_per_gpu")
        return {**step, "step_time_s": step["step_time_s"] / 3, **{key: step[key] * 3 for key in keys}}

    done = cli("check", recorded().edit_steps(faster), "--json")
    assert done.status == 1
    found = finding(done.document, "peak_flops")
    assert (found["code"], found["status"]) == ("above_peak", "fail")
    assert found["observed"] > 989.4
    assert [one["check"] for one in done.document["findings"] if one["status"] == "fail"] == ["peak_flops"]


def test_a_peak_is_held_to_the_precision(cli: Any, recorded: Any) -> None:
    run = recorded("baseline", "fp32").set("experiment/precision/dtype", "fp32")
    found = finding(cli("check", run, "--json").document, "peak_flops")
    assert (found["code"], found["status"], found["expected"]) == ("within_peak", "pass", "<= 494.7")
    tpu = recorded("baseline", "tpu").set("platform/gpu", "tpu-v6e").set("experiment/precision/dtype", "fp32")
    found = finding(cli("check", tpu, "--json").document, "peak_flops")
    assert (found["code"], found["status"]) == ("peak_unknown", "unknown")


def test_an_unknown_gpu_never_passes(cli: Any, recorded: Any) -> None:
    run = recorded().set("platform/gpu", None).set("platform/gpu_name", "Foo 9000")
    done = cli("check", run, "--json")
    assert (done.status, done.document["verdict"]) == (5, "unknown")
    assert finding(done.document, "peak_flops")["code"] == "peak_of_gpu_unknown"
    reason = judged(run).figures.mfu.reason
    assert reason is not None
    assert (reason.code, reason.values) == (figures.GPU_NOT_IN_CATALOG, {"gpu": "Foo 9000"})


def test_on_a_cpu_peak_and_card_do_not_apply(cli: Any, recorded: Any) -> None:
    run = recorded().set("platform/gpu", None).set("platform/gpu_name", "cpu")
    done = cli("check", run, "--json")
    assert done.status == 0
    assert set(done.document["not_applicable"]) - OF_NODES == {"peak_flops", "memory_capacity"}
    codes = {one.check: one.code.name for one in judged(run).not_applicable}
    assert (codes["peak_flops"], codes["memory_capacity"]) == ("cpu_has_no_peak", "cpu_has_no_card")


def test_more_memory_than_the_card_has_fails_and_the_host_s_is_not_held_against_it(cli: Any, recorded: Any) -> None:
    over = recorded("baseline", "over").edit_steps(lambda step: {**step, "memory_gib": 141.0})
    done = cli("check", over, "--json")
    assert (done.status, finding(done.document, "memory_capacity")["code"]) == (1, "above_capacity")
    host = recorded("baseline", "host").edit_steps(lambda step: {**step, "memory_kind": "process_rss_peak"})
    found = finding(cli("check", host, "--json").document, "memory_capacity")
    assert (found["code"], found["status"]) == ("memory_of_host", "unknown")
    mixed = recorded("baseline", "mixed").edit_steps(
        lambda step: {**step, "memory_kind": "torch_allocated"} if step["step"] > 30 else step
    )
    assert cli("check", mixed, "--threshold", "memory_peak_gib<=200").status == 5


def test_a_reported_rate_that_contradicts_its_own_time_fails(cli: Any, recorded: Any) -> None:
    def boast(step: dict[str, Any]) -> dict[str, Any]:
        return {**step, "reported_tokens_per_s_per_gpu": step["reported_tokens_per_s_per_gpu"] * 1.1}

    done = cli("check", recorded().edit_steps(boast), "--json")
    assert done.status == 1
    found = finding(done.document, "throughput_identity")
    assert found["code"] == "rate_disagrees"
    assert found["observed"] / found["expected"] == pytest.approx(1.1)


@pytest.mark.parametrize(("factor", "status"), [(1.0, "pass"), (1.3, "fail")])
def test_reported_tflops_are_held_to_a_formula(cli: Any, recorded: Any, factor: float, status: str) -> None:
    def report(step: dict[str, Any]) -> dict[str, Any]:
        return {**step, "reported_tflops_per_gpu": step["tflops_per_gpu"] * factor}

    done = cli("check", recorded().edit_steps(report), "--json")
    assert finding(done.document, "throughput_identity")["status"] == status


def test_a_log_that_reports_no_rates_is_not_judged_on_them(cli: Any, recorded: Any) -> None:
    keys = ("tokens_per_s_per_gpu", "reported_tokens_per_s_per_gpu")
    done = cli("check", recorded().edit_steps(lambda step: without(step, *keys)), "--json")
    assert (done.status, set(done.document["not_applicable"]) - OF_NODES) == (0, {"throughput_identity"})


def test_tokens_that_are_not_batch_times_sequence_fail(cli: Any, recorded: Any) -> None:
    run = recorded().set("experiment/training/global_batch_size", 16)
    done = cli("check", run, "--json")
    assert done.status == 1
    assert finding(done.document, "batch_identity")["status"] == "fail"
    world = recorded("again").set("platform/world_size", 8)
    assert finding(cli("check", world, "--json").document, "world_identity")["status"] == "fail"


def test_a_first_loss_of_another_vocabulary_fails(cli: Any, recorded: Any) -> None:
    run = recorded().edit_steps(lambda step: {**step, "loss": 11.7} if step["step"] == 1 else step)
    done = cli("check", run, "--json")
    assert (done.status, finding(done.document, "first_loss")["code"]) == (1, "first_loss_off")


def test_a_loss_below_the_entropy_rate_fails(cli: Any, recorded: Any) -> None:
    low = recorded("baseline", "low").edit_steps(lambda step: {**step, "loss": 1.19} if step["step"] > 35 else step)
    assert finding(cli("check", low, "--json").document, "loss_floor")["code"] == "below_entropy_rate"
    zero = recorded("baseline", "zero").edit_steps(lambda step: {**step, "loss": 0.0} if step["step"] == 50 else step)
    found = finding(cli("check", zero, "--json").document, "loss_floor")
    assert (found["code"], found["status"], found["evidence"]["line"]) == ("zero_loss", "fail", 52)
    near = recorded("baseline", "near").edit_steps(lambda step: {**step, "loss": 1.22} if step["step"] > 1 else step)
    assert finding(cli("check", near, "--json").document, "loss_floor")["status"] == "pass"


def test_a_loss_that_rises_or_gives_back_its_gain_fails(cli: Any, recorded: Any) -> None:
    rising = recorded("baseline", "rising").edit_steps(lambda step: {**step, "loss": 12.58 + step["step"] / 1000})
    assert finding(cli("check", rising, "--json").document, "loss_falling")["code"] == "loss_does_not_fall"
    lost = recorded("baseline", "lost").edit_steps(
        lambda step: {**step, "loss": 12.0 if step["step"] > 50 else step["loss"] - step["step"] / 10}
    )
    assert finding(cli("check", lost, "--json").document, "loss_falling")["code"] == "loss_regressed"


def test_a_falling_loss_is_not_asked_of_uniform_data(cli: Any, recorded: Any) -> None:
    run = recorded().set("expected/loss_floor", 12.58).edit_steps(lambda step: {**step, "loss": 12.58})
    assert "loss_falling" in cli("check", run, "--json").document["not_applicable"]


def test_a_run_without_steps_fails(cli: Any, recorded: Any) -> None:
    run = recorded().edit_steps(lambda _: None)
    done = cli("check", run, "--threshold", "mfu>=0.1", "--json")
    assert done.status == 1
    assert finding(done.document, "steps_present")["code"] == "no_steps"


@pytest.mark.parametrize("bound", ["mfu>0.3", "speed>=3", "mfu>=nan", "mfu>=-1", ""])
def test_a_bound_that_is_none_is_wrong_input(cli: Any, recorded: Any, bound: str) -> None:
    run = recorded()
    done = cli("check", run, "--threshold", bound, "--json")
    assert done.status == 2
    assert done.document["error"]["key"] == "--threshold"
    assert not (Path(run) / "verdict.json").exists()


def test_what_is_no_run_is_wrong_input(cli: Any, tmp_path: Path) -> None:
    done = cli("check", tmp_path, "--json")
    assert done.status == 2
    assert set(done.document["error"]) == {"message", "key", "value", "expected", "next"}


def test_junit_tells_failures_from_what_is_not_known(cli: Any, recorded: Any, tmp_path: Path) -> None:
    run = recorded().edit_steps(lambda step: without(nonfinite(step, 9), "memory_gib"))
    run.add_event(kind="error", message="bad <b>bytes</b> \x1b[31m \x00")
    junit = tmp_path / "check.xml"
    assert cli("check", run, "--threshold", "memory_peak_gib<=100", "--junit", junit).status == 1
    suite = ElementTree.parse(junit).getroot()[0]
    cases = {case.get("name"): case for case in suite}
    assert cases["loss_finite"].find("failure") is not None
    assert cases["threshold memory_peak_gib<=100"].find("error") is not None
    assert cases["memory_capacity"].find("skipped") is not None
    assert [child.tag for child in cases["steps_present"]] == ["system-out"]
    assert int(suite.get("tests", "0")) == len(cases)
    assert (suite.get("failures"), suite.get("errors")) == ("3", "1")
    assert cli("check", run, "--junit", junit).status == 1  # ours may be replaced
    (tmp_path / "mine.xml").write_text("mine")
    assert cli("check", run, "--junit", tmp_path / "mine.xml").status == 2
    assert (tmp_path / "mine.xml").read_text() == "mine"


def test_text_of_a_log_cannot_act_on_a_terminal(cli: Any, recorded: Any) -> None:
    hostile = "\x1b[2Jgone\x1b]0;title\x07\u202eturned"
    run = (
        recorded("baseline", "named\u202e")
        .without_events("finished")
        .add_event(kind="error", message=f"{hostile}\r\nnext", source={"file": hostile, "line": 1})
    )
    run.set("experiment/name", hostile).set("platform/name", hostile).set("framework", hostile)
    recorded("again")
    for words in (
        ("check", run),
        ("runs", "show", run),
        ("runs", "list"),
        ("runs", "trend"),
        ("compare", run, "again"),
    ):
        shown = cli(*words)
        assert not {"\x1b", "\x07", "\u202e", "\r"} & set(shown.out + shown.err), words
    assert "\\x1b[2Jgone" in cli("check", run).out


def test_every_file_of_checks_is_listed_once() -> None:
    folder = Path(verdict.__file__).parent / "checks"
    assert sorted(verdict.CHECKS) == sorted(path.stem for path in folder.glob("*.py") if path.stem != "__init__")


def test_a_code_says_what_a_finding_means_under_a_name_of_its_own() -> None:
    codes = verdict.codes()
    names = [code.name for code in codes]
    assert len(set(names)) == len(names)
    for code, meaning in codes.items():
        assert re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)+", code.name)
        assert re.fullmatch(r"[A-Z].*[^.]\.", meaning), code.name
        assert ". " not in meaning, f"{code.name} is explained in one sentence"


def test_every_check_has_its_row_in_the_docs() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "checks.md").read_text()
    for name in verdict.CHECKS:
        assert f"| `{'threshold …' if name == 'thresholds' else name}` |" in page


def test_a_verdict_that_cannot_be_kept_is_still_said(cli: Any, recorded: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run = recorded()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("steelyard.verdict.verdict.replace_file", full)
    done = cli("check", run)
    assert done.status == 0
    assert "verdict.json (No space left on device)" in done.err


def test_check_takes_no_more_than_it_reads(recorded: Callable[..., Any]) -> None:
    """A run still written to is judged on its whole lines."""
    run = recorded()
    with (Path(run) / "steps.jsonl").open("a") as file:
        file.write('{"step": 61, "lo')
    assert judged(run).status == "pass"


@pytest.mark.parametrize("size", [1, 7, 59])
def test_a_verdict_is_the_same_in_blocks_of_any_size(
    cli: Any, recorded: Any, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    run = recorded().set("framework", "megatron")
    run.edit_steps(
        lambda step: {
            **step,
            "loss": step["loss"] + (2 if step["step"] in (30, 31) else 0),
            "reported_tflops_per_gpu": step["tflops_per_gpu"] * (1.5 if step["step"] == 41 else 1),
        }
    )
    run.add_event(kind="unread_line", message="a broken line", step=20)
    together = cli("check", run, "--json").document
    monkeypatch.setattr("steelyard.accounting.arrays.BLOCK", size)
    assert cli("check", run, "--json").document == together


MAXTEXT_CASE = Path(__file__).parents[2] / "docs" / "cases" / "maxtext-two-hosts"
MAXTEXT_NAN = Path(__file__).parents[1] / "traps" / "maxtext" / "cvs-3-nan-from-step-15.log"


def test_random_data_that_repeats_is_memorized_and_other_random_data_cannot_be_learned(
    cli: Any, tmp_path: Path
) -> None:
    shutil.copytree(MAXTEXT_CASE, tmp_path / "case")
    manifest = json.loads((tmp_path / "case" / "run.json").read_text())
    batch = manifest["experiment"]["training"]["global_batch_size"]
    assert manifest["experiment"]["data"]["samples"] == batch
    for samples, code in ((batch, "repeated_samples"), (2 * batch, "repeated_samples"), (None, "uniform_source")):
        manifest["experiment"]["data"]["samples"] = samples
        (tmp_path / "case" / "run.json").write_text(json.dumps(manifest))
        assert cli("check", "case", "--json").document["not_applicable_codes"]["loss_falling"] == code


def test_a_nan_names_the_step_here_and_in_a_log_that_counts_from_0(cli: Any) -> None:
    run = cli("ingest", MAXTEXT_NAN, "--json").document["run"]
    nan = finding(cli("check", run, "--json").document, "loss_finite")
    assert nan["message"].startswith("loss is NaN at step 16 (15 in the log) and ")
    line = (Path(run) / nan["evidence"]["file"]).read_text().splitlines()[nan["evidence"]["line"] - 1]
    assert "step: 15," in line
