"""What a user declares: a difference that does not matter, a setting that a log lacks, a log that is wrong."""

import gzip
import json
import shlex
from pathlib import Path
from typing import Any

import pytest

import steelyard
from steelyard.comparison.acceptance import NO_WORDS

ROWS = 60
REAL = Path(__file__).parents[1] / "frameworks" / "logs" / "real"
STATED = {
    "model.preset": "llama3.1-8b",
    "training.sequence_length": 8192,
    "training.global_batch_size": 128,
    "training.micro_batch_size": 1,
    "training.recompute": "none",
    "precision.dtype": "bf16",
    "precision.grad_reduce_in_fp32": "true",
    "precision.fp32_residual_connection": "false",
}


def table(name: str, seconds: float = 20.0) -> Path:
    """A table of steps, which states no setting."""
    rows = "".join(f"{step},{10 - step / 20:.4f},{seconds + step % 7 / 1000:.4f}\n" for step in range(1, ROWS + 1))
    path = Path(f"{name}.csv")
    path.write_text(f"step,loss,step_time_s\n{rows}")
    return path


def ingest(cli: Any, name: str, seconds: float = 20.0, framework: str | None = None, **settings: Any) -> None:
    options = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    options += ["--framework", framework] if framework else []
    done = cli("ingest", table(name, seconds), "--name", name, "--gpu", "h100", "--gpus", "8", "--nodes", "1", *options)
    assert done.status == 0, done.err


@pytest.fixture
def sides(cli: Any, recorded: Any) -> tuple[Any, Any]:
    return recorded("again"), recorded("baseline")


def statuses(done: Any) -> dict[str, str]:
    return {metric: ruling["status"] for metric, ruling in done.document["comparable"].items()}


# --accept


def test_an_accepted_difference_is_a_caveat_with_the_users_words_and_the_ratio_is_computed(
    cli: Any, sides: Any
) -> None:
    sides[0].set("experiment/training/recompute", "full")
    refused = cli("compare", *sides, "--json")
    assert (refused.status, refused.document["throughput_speedup"]) == (4, None)
    done = cli("compare", *sides, "--accept", "training.recompute=recompute is the tuning", "--json")
    assert (done.status, statuses(done)["throughput"]) == (5, "qualified")  # one run per side
    assert done.document["throughput_speedup"]["value"] == pytest.approx(1.0, abs=0.01)
    (reason,) = done.reasons("throughput", "setting_differs")
    assert (reason["effect"], reason["accepted"]) == ("caveat", "recompute is the tuning")
    (accepted,) = done.document["accepted"]
    assert (accepted["key"], accepted["reason"]) == ("training.recompute", "recompute is the tuning")
    assert "throughput" in accepted["metrics"]
    assert done.document["assumed"] == []


def test_an_accepted_comparison_may_decide(cli: Any, recorded: Any) -> None:
    for at, factor in enumerate((0.8, 0.81, 0.79)):
        recorded("baseline", f"a/run{at}").slower(factor).set("experiment/training/recompute", "full")
    for at, factor in enumerate((1.0, 1.01, 0.99)):
        recorded("baseline", f"b/run{at}").slower(factor)
    assert cli("compare", "a", "b", "--json").status == 4
    done = cli("compare", "a", "b", "--accept", "training.recompute", "--json")
    assert (done.status, done.document["throughput_speedup"]["outcome"]) == (0, "better")
    assert done.reasons("throughput", "setting_differs")[0]["accepted"] == NO_WORDS


def test_in_matched_mode_an_accepted_difference_stays_a_caveat(cli: Any, sides: Any) -> None:
    sides[0].set("experiment/training/micro_batch_size", 1)
    matched = ("--mode", "matched", "--json")
    refused = cli("compare", *sides, *matched)
    assert refused.status == 4
    reasons = [reason for reason in refused.reasons() if reason["effect"] == "blocks"]
    assert "training.micro_batch_size" in {key for reason in reasons for key in reason["keys"]}
    names = sorted({name for reason in reasons for name in reason["keys"] or [reason["code"]]})
    done = cli("compare", *sides, *matched, *(word for name in names for word in ("--accept", name)))
    assert (done.status, statuses(done)["throughput"]) == (5, "qualified")


def test_the_code_of_a_contradiction_may_be_accepted_as_long_as_a_figure_is_left(cli: Any, sides: Any) -> None:
    sides[0].edit_steps(lambda step: step if step["step"] <= 15 else None)
    few = ("--accept", "too_few_steady_steps=a smoke test", "--json")
    done = cli("compare", *sides, *few)
    assert (done.status, statuses(done)["throughput"]) == (5, "qualified")
    assert done.document["throughput_speedup"] is not None
    sides[0].edit_steps(lambda step: {**step, "step_time_s": None})
    without = cli("compare", *sides, *few)
    assert (without.status, without.document["throughput_speedup"]) == (5, None)
    assert without.reasons("throughput", "figure_missing")


@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("recompute", "training.recompute"),
        ("training.recompte", "training.recompute"),
        ("clock_differ", "clocks_differ"),
        ("xyzzy", None),
    ],
)
def test_a_key_that_does_not_exist_names_the_nearest(cli: Any, sides: Any, key: str, near: str | None) -> None:
    done = cli("compare", *sides, "--accept", key, "--json")
    assert (done.status, done.document["error"]["key"], done.document["error"]["value"]) == (2, "--accept", key)
    if near:
        assert done.document["error"]["next"] == f"--accept {near}"


@pytest.mark.parametrize("code", ["setting_differs", "figure_missing", "times_missing"])
def test_neither_every_difference_nor_a_missing_figure_can_be_accepted(cli: Any, sides: Any, code: str) -> None:
    assert cli("compare", *sides, "--accept", code, "--json").status == 2


def test_an_accept_that_changed_nothing_is_told(cli: Any, sides: Any) -> None:
    done = cli("compare", *sides, "--accept", "data.path=two mounts")
    assert "notice: --accept data.path changed nothing" in done.out
    assert "Declared" not in done.out
    document = cli("compare", *sides, "--accept", "data.path", "--json").document
    assert (document["accepted"], document["banner"]) == ([{"key": "data.path", "reason": None, "metrics": []}], None)


def test_runs_of_one_side_may_differ_in_an_accepted_key(cli: Any, recorded: Any) -> None:
    recorded("again", "a/one").set("experiment/data/path", "/data/c4")
    recorded("baseline", "a/two").set("experiment/data/path", "/shared/c4")
    recorded("half-batch")
    assert cli("compare", "a", "half-batch", "--json").status == 2
    assert cli("compare", "a", "half-batch", "--accept", "data.path=one corpus", "--json").status == 4


# --assume


def test_assumed_settings_make_two_tables_comparable_and_are_caveats(cli: Any) -> None:
    ingest(cli, "a", **STATED)
    ingest(cli, "b", 22.0, **{key: value for key, value in STATED.items() if key != "training.sequence_length"})
    unknown = cli("compare", "a", "b", "--json")
    assert unknown.status == 5
    assert unknown.document["throughput_speedup"] is None
    assume = [missing["option"] for missing in unknown.document["next"]["missing"]]
    assert "--assume baseline:training.sequence_length=VALUE" in assume
    suggestions = {missing["key"]: missing["suggestion"] for missing in unknown.document["next"]["missing"]}
    assert suggestions["training.sequence_length"] == "8192"
    done = cli("compare", "a", "b", "--assume", "baseline:training.sequence_length=8192", "--json")
    assert done.document["throughput_speedup"]["value"] == pytest.approx(1.1, rel=0.01)
    assert statuses(done)["throughput"] == "qualified"
    (reason,) = done.reasons("throughput", "settings_assumed")
    assert (reason["effect"], reason["side"], reason["keys"]) == ("caveat", "baseline", ["training.sequence_length"])
    row = next(row for row in done.document["contract"] if row["key"] == "sequence_length")
    assert (row["baseline"], row["baseline_source"], row["status"]) == (8192, "assumed", "equal")
    assert done.document["assumed"] == [
        {
            "side": "baseline",
            "key": "training.sequence_length",
            "value": 8192,
            "keys": ["training.sequence_length"],
        }
    ]


def test_an_assumed_value_that_differs_blocks_as_a_recorded_one(cli: Any) -> None:
    ingest(cli, "a", **STATED)
    ingest(cli, "b", 22.0, **{key: value for key, value in STATED.items() if key != "training.sequence_length"})
    assert cli("compare", "a", "b", "--assume", "b:training.sequence_length=4096", "--json").status == 4


def test_a_preset_and_the_platform_may_be_assumed_for_both_sides(cli: Any) -> None:
    for name, seconds in (("a", 20.0), ("b", 22.0)):
        assert cli("ingest", table(name, seconds), "--name", name).status == 0
    supplied = [f"both:{key}={value}" for key, value in STATED.items()]
    supplied += ["both:platform.gpu=h100", "both:platform.world_size=8", "both:platform.nodes=1"]
    done = cli("compare", "a", "b", "--for", "throughput,flops", "--json", *(f"--assume={each}" for each in supplied))
    assert done.document["throughput_speedup"]["value"] == pytest.approx(1.1, rel=0.01)
    assert done.document["throughput_speedup"]["baseline_figure"] == pytest.approx(128 * 8192 / 8 / 22, rel=0.01)
    assert done.document["flops_utilization"]["value"] == pytest.approx(1.1, rel=0.01)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("training.sequence_length=4096", "--assume"),
        ("target:training.sequence_length", "--assume"),
        ("target:training.sequence_lenght=4096", "training.sequence_lenght"),
        ("target:training.sequence_length=long", "training.sequence_length"),
        ("target:training.tokens_per_step=4096", "training.tokens_per_step"),
        ("target:platform.world_size=0", "platform.world_size"),
        ("target:platform.gpu=h1000", "--gpu"),
        ("target:data.reset_position_ids=often", "data.reset_position_ids"),
        ("target:measurement.memory_kind=peak", "measurement.memory_kind"),
        ("nobody:training.sequence_length=4096", "--assume"),
    ],
)
def test_an_assumption_is_checked_by_the_registry(cli: Any, sides: Any, text: str, key: str) -> None:
    done = cli("compare", *sides, "--assume", text, "--json")
    assert (done.status, done.document["error"]["key"], bool(done.document["error"]["next"])) == (2, key, True)


def test_an_assumption_never_contradicts_a_record(cli: Any, sides: Any) -> None:
    ingest(cli, "table", **STATED)
    error = cli("compare", "table", sides[1], "--assume", "table:training.sequence_length=4096", "--json").document
    assert (error["error"]["key"], error["error"]["expected"]) == ("training.sequence_length", "8192")
    assert "--accept training.sequence_length" in error["error"]["next"]
    assert "--set training.sequence_length=4096 --override" in error["error"]["next"]
    same = cli("compare", *sides, "--assume", "target:training.seed=1234")
    recorded_seed = json.loads((sides[0].directory / "run.json").read_text())["experiment"]["training"]["seed"]
    assert (same.status == 2) == (recorded_seed != 1234)
    equal = cli("compare", *sides, "--assume", f"target:training.seed={recorded_seed}")
    assert "changed nothing: the record has this value" in equal.out


# In every output.


def test_a_saved_comparison_gives_the_same_answer_and_its_commands_repeat_the_declarations(cli: Any) -> None:
    ingest(cli, "a", **STATED)
    ingest(cli, "b", 22.0, **{key: value for key, value in STATED.items() if key != "training.sequence_length"})
    declared = ("--assume", "baseline:training.sequence_length=8192", "--accept", "settings_unknown=same image's run")
    first = cli("compare", "a", "b", "--name", "first", *declared, "--json").document
    files = cli("report", "first", "--to", "md,html", "--json").document["files"]
    markdown, html = (next(Path(file).read_text() for file in files if file.endswith(end)) for end in ("md", "html"))
    assert html.index("Declared by the user") < html.index("<header>")
    assert markdown.splitlines()[2].startswith("> **Declared by the user: ")
    command = next(line for line in markdown.splitlines() if line.startswith("steelyard compare "))
    words = shlex.split(command)[1:]
    assert "settings_unknown=same image's run" in words
    again = cli(*words, "--json").document
    for key in ("accepted", "assumed", "banner", "comparable", "throughput_speedup"):
        assert again[key] == first[key]


def test_a_comparison_of_0_1_that_was_forced_still_loads(cli: Any, sides: Any) -> None:
    sides[0].set("experiment/training/recompute", "full")
    cli("compare", *sides, "--name", "old")
    path = Path("runs/comparisons/old/comparison.json")
    content = json.loads(path.read_text())
    del content["accepted"], content["assumed"]
    path.write_text(json.dumps({**content, "forced": True}))
    assert cli("report", "old").status == 0


@pytest.mark.parametrize(
    "accepted", [None, [1], [{}], ["data.path"], [{"key": "x", "reason": None}], [{"key": "data.path", "reason": 1}]]
)
def test_a_saved_declaration_that_is_spoilt_cannot_be_read(cli: Any, sides: Any, accepted: Any) -> None:
    cli("compare", *sides, "--name", "spoilt")
    path = Path("runs/comparisons/spoilt/comparison.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), "accepted": accepted}))
    assert cli("report", "spoilt").status == 2


def test_the_api_takes_declarations_as_mappings(sides: Any) -> None:
    sides[0].set("experiment/training/recompute", "full")
    made = steelyard.compare(sides[0].directory, sides[1].directory, accept={"training.recompute": "tuned"})
    assert made.ratios["throughput"] is not None
    assert [each.reason for each in made.accepted] == ["tuned"]


# ingest --override


def megatron(path: Path) -> Path:
    """A real Megatron log that prints its arguments."""
    path.write_bytes(gzip.decompress((REAL / "megatron_clean_int1.log.gz").read_bytes()))
    return path


def test_a_setting_contradicts_a_log_only_as_an_override_which_is_recorded_and_shown(cli: Any) -> None:
    log, setting = megatron(Path("train.log")), ("--set", "training.seed=4321")
    assert cli("ingest", log, "--name", "as-logged").status == 0
    logged = json.loads(Path("runs/as-logged/run.json").read_text())
    seed, line = logged["experiment"]["training"]["seed"], logged["ingested"]["said"]["training.seed"]["line"]
    refused = cli("ingest", log, *setting, "--json")
    assert (refused.status, refused.document["error"]["key"]) == (2, "training.seed")
    assert "--override" in refused.document["error"]["next"]
    assert cli("ingest", log, *setting, "--override", "--name", "corrected").status == 0
    manifest = json.loads(Path("runs/corrected/run.json").read_text())
    assert manifest["experiment"]["training"]["seed"] == 4321
    assert manifest["sources"]["training.seed"] == "override"
    recorded = {"value": 4321, "logged": seed, "file": "logs/train.log", "line": line}
    assert manifest["ingested"]["overridden"] == {"training.seed": recorded}
    shown = f"training.seed = 4321 (log: {seed}, logs/train.log:{line})"
    assert cli("check", "corrected", "--json").document["overridden"] == {"training.seed": recorded}
    for output in (cli("check", "corrected").out, cli("runs", "show", "corrected").out):
        assert shown in output
    files = cli("report", "corrected", "--to", "html", "--json").document["files"]
    assert f"Overridden: {shown}" in Path(files[0]).read_text()
    compared = cli("compare", "corrected", "as-logged", "--for", "convergence", "--json")
    (reason,) = compared.reasons("convergence", "settings_overridden")
    assert (reason["effect"], reason["side"], reason["keys"]) == ("caveat", "target", ["training.seed"])
    assert shown in compared.document["banner"]


def test_an_override_of_the_batch_changes_the_tokens_of_every_step(cli: Any) -> None:
    log = megatron(Path("train.log"))
    cli("ingest", log, "--name", "as-logged")
    before = cli("check", "as-logged", "--json").document["figures"]["tokens_per_step"]
    options = ("--set", "training.sequence_length=1", "--override", "--name", "corrected")
    assert cli("ingest", log, *options).status == 0
    experiment = json.loads(Path("runs/as-logged/run.json").read_text())["experiment"]
    after = cli("check", "corrected", "--json").document["figures"]["tokens_per_step"]
    assert after * experiment["training"]["sequence_length"] == before


def test_tokens_per_step_and_the_global_batch_are_one_difference(cli: Any, recorded: Any) -> None:
    sides = recorded("half-batch"), recorded("baseline")
    assert cli("compare", *sides, "--json").status == 4
    for key in ("training.tokens_per_step", "training.global_batch_size"):
        done = cli("compare", *sides, "--accept", f"{key}=the batch is the question", "--json")
        assert (done.status, statuses(done)["throughput"]) == (5, "qualified")
        assert done.document["accepted"][0]["metrics"] == ["throughput", "memory", "flops", "convergence"]


def test_what_is_still_unknown_is_shown_with_the_difference_that_blocks(cli: Any) -> None:
    ingest(cli, "a", **STATED)
    ingest(cli, "b", 22.0, **{"training.global_batch_size": 64, "training.sequence_length": 8192})
    step = cli("compare", "a", "b", "--json").document["next"]
    assert any("--accept training.tokens_per_step=REASON" in command for command in step["commands"] + step["instead"])
    options = [missing["option"] for missing in step["missing"]]
    assert options == [
        "--assume baseline:model.preset=VALUE",
        "--assume baseline:training.recompute=VALUE",
        "--assume baseline:precision.dtype=VALUE",
        "--assume baseline:precision.grad_reduce_in_fp32=VALUE",
        "--assume baseline:precision.fp32_residual_connection=VALUE",
    ]
    assert {missing["key"]: missing["suggestion"] for missing in step["missing"]}["model.preset"] == "llama3.1-8b"


def test_a_difference_of_framework_defaults_may_be_accepted_or_settled(cli: Any) -> None:
    for name, framework in (("amd", "primus"), ("nvidia", "nemo")):
        ingest(cli, name, framework=framework, **STATED)
    asked = ("compare", "amd", "nvidia", "--for", "convergence", "--accept", "settings_unknown", "--json")
    open_ = cli(*asked)
    assert [reason["effect"] for reason in open_.reasons("convergence", "contract_left_open")] == ["unknown"]
    for option in ("--accept=contract_left_open=looked at both", "--accept=data.eod_mask_loss=looked at both"):
        (reason,) = cli(*asked, option).reasons("convergence", "contract_left_open")
        assert (reason["effect"], reason["accepted"]) == ("caveat", "looked at both")
    settled = cli(*asked, "--assume=both:data.eod_mask_loss=false")
    assert settled.reasons("convergence", "contract_left_open") == []
    (assumed, _) = settled.reasons("convergence", "settings_assumed")
    assert assumed["keys"] == ["data.eod_mask_loss"]
