"""steelyard run --suite and --resume: every cell of a file, one verdict, and what is left after an end."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from conftest import TINY, Result
from steelyard import records
from steelyard.experiment import packaged
from steelyard.records.fleet import held_directory

SUITE = """
suite:
  axes:
    training.micro_batch_size: [2, 4]
    length: {short: {training.sequence_length: 64}, long: {training.sequence_length: 128}}
  repeats: 2
"""
CELLS = ["mbs2-short", "mbs2-long", "mbs4-short", "mbs4-long"]
TWO = "\nplatforms:\n  one: {gpu: cpu, gpus_per_node: 1}\n  other: {gpu: cpu, gpus_per_node: 1}\n"
PASSES = ("passes",) * 16
Run = Callable[..., Result]


@pytest.fixture
def file(tiny: Path) -> Path:
    """The tiny experiment with a suite of four cells, two runs each."""
    text = tiny.read_text().replace("micro_batch_size: 8", "micro_batch_size: 2")
    tiny.write_text(text + SUITE)
    return tiny


def edit(file: Path, before: str, after: str) -> None:
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, after, 1))


def suite_json(name: str = "s") -> Path:
    return Path("runs", name, "suite.json")


def snapshot(place: Path = Path("runs")) -> dict[str, bytes | None]:
    return {str(path): path.read_bytes() if path.is_file() else None for path in sorted(place.rglob("*"))}


def test_every_cell_is_run_in_turn_and_judged_together(cli: Run, file: Path, trains: Any) -> None:
    stand_in = trains(*PASSES)
    done = cli("run", file, "--suite", "--name", "s", "--json")
    assert done.status == 0, done.out
    assert stand_in.names == [f"{cell}/repeat-{repeat}" for repeat in (1, 2) for cell in CELLS]
    document = done.document
    assert document["suite"] == str(Path("runs/s").resolve())
    assert document["axes"] == ["training.micro_batch_size", "length"]
    assert (document["planned"], document["made"], document["kept"], document["verdict"]) == (8, 8, 0, "pass")
    assert [(cell["cell"], cell["status"]) for cell in document["cells"]] == [(cell, "pass") for cell in CELLS]
    assert document["cells"][1]["values"] == {"training.micro_batch_size": 2, "length": "long"}
    experiments = [records.load(run["run"]).manifest.experiment for run in document["runs"]]
    keys = ("training.micro_batch_size", "training.sequence_length")
    assert [[each.value(key) for key in keys] for each in experiments[::2]] == [[2, 64], [2, 128], [4, 64], [4, 128]]
    assert records.load(document["runs"][0]["run"]).manifest.sources["training.sequence_length"] == "suite"
    root = ElementTree.parse(document["junit"]).getroot()
    assert [suite.get("name") for suite in root] == [f"{cell}/repeat-{n}" for cell in CELLS for n in (1, 2)]
    assert cli("check", "s", "--json").document["cells"] == document["cells"]
    assert [row["name"] for row in cli("runs", "list", "--json").document["suites"]] == ["s"]


def test_platforms_take_turns_in_every_cell(cli: Run, file: Path, trains: Any) -> None:
    file.write_text(file.read_text() + TWO)
    trains()
    done = cli("run", file, "--suite", "--name", "s", "--no-check", "--json")
    order = sorted(done.document["runs"], key=lambda run: records.load(run["run"]).manifest.provenance.started)
    assert [run["cell"] for run in order[:4]] == [
        "one/mbs2-short",
        "other/mbs2-short",
        "other/mbs2-long",
        "one/mbs2-long",
    ]
    assert [run["cell"] for run in order[8:10]] == ["other/mbs2-short", "one/mbs2-short"]
    assert (done.document["verdict"], done.document["cells"], done.document["junit"]) == (None, None, None)
    one = cli("run", file, "--suite", "--platform", "other", "--name", "t", "--no-check", "--json").document
    assert {run["cell"] for run in one["runs"]} == set(CELLS)
    both = cli("run", file, "--suite", "--platform", "other,one", "--name", "u", "--no-check", "--json").document
    assert both["runs"][0]["cell"] == "other/mbs2-short"


def test_a_file_without_a_suite_has_its_platforms_as_cells(cli: Run, tiny: Path, trains: Any) -> None:
    trains()
    tiny.write_text(tiny.read_text() + TWO)
    done = cli("run", tiny, "--suite", "--name", "s", "--no-check", "--json").document
    assert [run["cell"] for run in done["runs"]] == ["one/all", "other/all"]


def test_a_file_with_neither_suite_nor_platforms_is_one_cell(cli: Run, tiny: Path, trains: Any) -> None:
    trains(*PASSES)
    done = cli("run", tiny, "--suite", "--repeats", "2", "--name", "s", "--json")
    assert (done.status, [(run["cell"], run["name"]) for run in done.document["runs"]]) == (
        0,
        [("all", "repeat-1"), ("all", "repeat-2")],
    )


def test_a_json_config_has_its_models_and_gpus_as_cells(cli: Run, trains: Any) -> None:
    from seeds import filled, packaged_content

    trains()
    name = "mi3xx_megatron_llama_single.json"
    Path(name).write_text(json.dumps(filled(packaged_content(name), 1)))
    allow = ("--allow", "SY503,SY504,SY403,SY121,SY125")
    done = cli("run", name, "--suite", "--name", "s", "--no-check", "--json", *allow)
    assert done.status == 0, done.out
    models = {json.loads(json.dumps(cell["values"]))["model"] for cell in json.loads(suite_json().read_text())["cells"]}
    assert models == {"llama3_1_8b", "llama3_1_70b"}
    one = cli("run", name, "--suite", "--gpu", "mi300x", "--name", "t", "--no-check", "--json", *allow).document
    assert [run["cell"] for run in one["runs"]] == ["llama3_1_8b", "llama3_1_70b"]
    platforms = [cell["values"]["gpu"] for cell in json.loads(suite_json("t").read_text())["cells"]]
    assert platforms == ["mi300x", "mi300x"]
    names = "llama3_1_8b-mi300x,llama3_1_70b-mi300x"
    two = cli("run", name, "--suite", "--platform", names, "--name", "u", "--no-check", "--json", *allow).document
    assert two["planned"] == 2
    error = cli("run", name, "--suite", "--platform", f"{names},other", "--json", *allow).document["error"]
    assert (error["key"], error["value"]) == ("--platform", "other")


@pytest.mark.parametrize(
    ("endings", "statuses", "status"),
    [
        (("passes",) * 8, ["pass"] * 4, 0),
        (("passes", "crash", *["passes"] * 6), ["pass", "fail", "pass", "pass"], 1),
        (("passes", "oom", *["passes"] * 6), ["pass", "oom", "pass", "pass"], 1),
        (("passes", "train", "crash", *["passes"] * 5), ["pass", "lost", "fail", "pass"], 3),
        (("passes", "reach"), ["missing", "lost", "missing", "missing"], 3),
        (("passes", "interrupted"), None, 130),
        (("passes", "ctrl-c"), None, 130),
    ],
)
def test_one_status_for_all_cells(
    cli: Run, file: Path, trains: Any, endings: tuple[str, ...], statuses: list[str] | None, status: int
) -> None:
    trains(*endings)
    done = cli("run", file, "--suite", "--name", "s", "--json")
    assert (done.status, "error" in done.document) == (status, status == 3)
    assert statuses == (done.document["cells"] and [cell["status"] for cell in done.document["cells"]])
    assert len(done.document["runs"]) == (8 if len(endings) == 8 else 2)
    if statuses:
        assert cli("check", "s").status == status


def oversized(steps: int = 3) -> str:
    """Llama 8B, and 405B, which no single node holds."""
    return f"""
schema_version: 1
name: large
model: {{preset: llama3.1-8b}}
training:
  {{micro_batch_size: 1, global_batch_size: 8, sequence_length: 2048, steps: {steps}, learning_rate: 1e-4}}
data: {{source: counting}}
platforms:
  here: {{gpu: mi300x, gpus_per_node: 8, framework: megatron}}
suite:
  axes: {{model.preset: [llama3.1-8b, llama3.1-405b]}}
"""


def test_a_cell_that_is_declared_not_to_fit_runs_and_its_oom_is_expected(cli: Run, trains: Any) -> None:
    file = Path("large.yaml")
    file.write_text(oversized() + "  include: [{model.preset: llama3.1-405b, expect: oom}]\n")
    trains("passes", "oom")
    done = cli("run", file, "--suite", "--name", "s", "--json")
    large = done.document["cells"][1]
    assert (large["status"], large["is_expected"], large["expect"]) == ("oom", True, "oom")
    assert large["planned_gib"] > large["available_gib"] > 100
    assert [
        allowed["code"]
        for allowed in json.loads(Path(done.document["runs"][1]["run"], "run.json").read_text())["allowed"]
    ] == ["SY402"]
    assert done.status == {"pass": 0, "unknown": 5}[done.document["cells"][0]["status"]]
    named = {suite.get("name"): suite for suite in ElementTree.parse(done.document["junit"]).getroot()}
    assert named["llama3.1-405b/repeat-1"].get("failures") == "0"
    trains("passes", "passes")
    fits = cli("run", file, "--suite", "--name", "t", "--json").document["cells"][1]
    assert (fits["status"] != "oom", fits["is_expected"]) == (True, False)


def test_a_cell_that_does_not_fit_is_refused_and_can_be_skipped(cli: Run, trains: Any) -> None:
    file = Path("large.yaml")
    file.write_text(oversized())
    stand_in = trains("passes")
    error = cli("run", file, "--suite", "--json").document["error"]
    assert "--skip-oversized; or `expect: oom`" in error["next"]
    assert "cell model.preset=llama3.1-405b" in error["message"]
    assert not Path("runs").exists()
    done = cli("run", file, "--suite", "--skip-oversized", "--name", "s", "--json")
    assert stand_in.names == ["llama3.1-8b/repeat-1"]
    assert [cell["status"] for cell in done.document["cells"]][1] == "skipped"
    assert done.document["planned"] == 1
    assert "SY402" not in done.err
    assert not json.loads(Path(done.document["runs"][0]["run"], "run.json").read_text())["allowed"]


def test_a_suite_of_which_nothing_is_run_is_not_a_pass(cli: Run, trains: Any) -> None:
    file = Path("large.yaml")
    file.write_text(oversized().replace("[llama3.1-8b, llama3.1-405b]", "[llama3.1-405b]"))
    trains()
    done = cli("run", file, "--suite", "--skip-oversized", "--name", "s", "--json")
    assert (done.status, done.document["verdict"], done.document["planned"]) == (5, "unknown", 0)


def test_resume_makes_only_what_is_missing_or_failed_and_keeps_the_record_of_the_rest(
    cli: Run, file: Path, trains: Any
) -> None:
    trains("passes", "crash", "passes", "oom", "passes", "interrupted")
    cli("run", file, "--suite", "--name", "s")
    row = cli("runs", "list", "--json").document["suites"][0]
    assert (row["status"], row["cells"], row["verdict"]) == ("failed", 4, None)
    stand_in = trains(*PASSES)
    done = cli("run", file, "--resume", "s", "--json")
    assert stand_in.names == ["mbs2-long/repeat-1", "mbs2-long/repeat-2", "mbs4-short/repeat-2", "mbs4-long/repeat-2"]
    assert (done.status, done.document["made"], done.document["kept"]) == (1, 4, 4)  # out of memory is a result
    assert [cell["status"] for cell in done.document["cells"]] == ["pass", "pass", "pass", "oom"]
    kept = {
        path.parent.relative_to("runs/s").as_posix(): records.load(path.parent).status
        for path in Path("runs/s").glob("*/earlier/*/run.json")
    }
    assert kept == {"mbs2-long/earlier/repeat-1": "failed", "mbs2-long/earlier/repeat-2": "interrupted"}
    assert [path.name for path in records.runs_under(Path("runs/s/mbs2-long"))] == ["repeat-1", "repeat-2"]
    assert len(done.document["runs"]) == 8
    again = trains()
    assert cli("run", file, "--resume", "s").status == 1
    assert again.names == []


def test_the_repeats_of_the_suite_count_and_a_file_with_others_is_noted(cli: Run, file: Path, trains: Any) -> None:
    trains("passes", "interrupted")
    cli("run", file, "--suite", "--name", "s")
    edit(file, "repeats: 2", "repeats: 3")
    trains(*PASSES)
    done = cli("run", file, "--resume", "s", "--json")
    assert (done.status, done.document["planned"]) == (0, 8)
    assert "repeats per cell: 2, as in runs/s; the file has 3" in done.err


def test_a_run_that_fails_twice_is_kept_twice(cli: Run, file: Path, trains: Any) -> None:
    for endings in (("crash", "reach"), ("crash", "reach"), PASSES):
        trains(*endings)
        done = cli(
            "run", file, "--suite", *(("--resume", "s") if Path("runs/s").exists() else ("--name", "s")), "--json"
        )
    assert (done.status, done.document["verdict"]) == (0, "pass")
    assert sorted(path.name for path in Path("runs/s/mbs2-short/earlier").iterdir()) == ["repeat-1", "repeat-1-2"]


def test_a_host_that_cannot_be_reached_ends_the_suite_and_resume_finishes_it(cli: Run, file: Path, trains: Any) -> None:
    trains("passes", "passes", "reach")
    done = cli("run", file, "--suite", "--name", "s")
    assert done.status == 3
    assert "5 runs not started" in done.err
    assert "the same command with --resume runs/s" in done.err
    trains(*PASSES)
    assert cli("run", file, "--suite", "--resume", "s").status == 0
    assert cli("check", "s").status == 0


@pytest.mark.parametrize(
    ("before", "after", "words", "key"),
    [
        ("warmup_steps: 2", "warmup_steps: 1", (), "training.warmup_steps"),
        ("[2, 4]", "[2, 8]", (), "training.micro_batch_size"),
        ("[2, 4]", "[2, 4, 8]", (), "training.micro_batch_size"),
        ("[2, 4]", "[2]", (), "training.micro_batch_size"),
        ("training.sequence_length: 128", "training.sequence_length: 32", (), "training.sequence_length"),
        ("long: {", "longer: {", (), "length"),
        ("training.micro_batch_size: [2, 4]", "training.seed: [2, 4]", (), "axes"),
        ("  repeats: 2", "  exclude: [{length: long, training.micro_batch_size: 2}]\n  repeats: 2", (), "cells"),
        ("repeats: 2", "repeats: 3", ("--repeats", "3"), "runs"),
        (
            "  repeats: 2",
            "  include: [{length: long, training.micro_batch_size: 2, training.seed: 3}]",
            (),
            "training.seed",
        ),
        ("", "", ("--repeats", "1"), "runs"),
        ("", "", ("--seeds", "1,2"), "runs"),
        ("", "", ("--name", "other"), "--name"),
        ("", "", ("--gpus", "2"), "platform.gpus_per_node"),
        ("", "", ("--set", "suite.axes.length=null"), "axes"),
        ("", "", ("--set", "training.micro_batch_size=2"), "--set training.micro_batch_size"),
    ],
)
def test_resume_refuses_another_experiment_and_names_the_key(
    cli: Run, file: Path, trains: Any, before: str, after: str, words: tuple[str, ...], key: str
) -> None:
    trains("passes", "passes", "interrupted")
    cli("run", file, "--suite", "--name", "s")
    edit(file, before, after)
    made = snapshot()
    done = cli("run", file, "--suite", "--resume", "s", *words, "--json")
    assert (done.status, done.document["error"]["key"]) == (2, key), done.out
    assert done.document["error"]["next"]
    assert snapshot() == made


def test_an_interrupt_while_the_suite_is_judged_leaves_all_runs(
    cli: Run, file: Path, trains: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    trains(*PASSES)
    with monkeypatch.context() as patched:
        patched.setattr("steelyard.cli.series.judge_and_save", interrupted)
        done = cli("run", file, "--suite", "--name", "s", "--json")
    assert (done.status, len(done.document["runs"]), done.document["verdict"]) == (130, 8, None)
    assert cli("run", file, "--resume", "s", "--json").document["made"] == 0


def test_the_order_of_cells_may_change_between_two_commands(cli: Run, file: Path, trains: Any) -> None:
    trains("passes", "passes", "interrupted")
    cli("run", file, "--suite", "--name", "s")
    edit(file, "[2, 4]", "[4, 2]")
    stand_in = trains(*PASSES)
    done = cli("run", file, "--resume", "s", "--json")
    assert (done.status, done.document["kept"]) == (0, 2)
    assert stand_in.names[:2] == ["mbs4-short/repeat-1", "mbs4-long/repeat-1"]
    assert [cell["cell"] for cell in done.document["cells"]] == [*CELLS[2:], *CELLS[:2]]


def test_resume_refuses_other_platforms(cli: Run, file: Path, trains: Any) -> None:
    file.write_text(file.read_text() + TWO)
    trains("passes", "interrupted")
    cli("run", file, "--suite", "--name", "s")
    for words in (("--platform", "one"), ("--platform", "other,one", "--repeats", "2")):
        done = cli("run", file, "--suite", "--resume", "s", *words, "--json")
        assert (done.status, done.document.get("error", {}).get("key")) == (
            (2, "platform") if "one" in words else (1, None)
        )
    done = cli("run", file, "--resume", "s/one", "--json")
    assert (done.status, done.document["error"]["key"]) == (2, "--resume")


def test_repeats_are_resumed_with_and_without_their_number(cli: Run, tiny: Path, trains: Any) -> None:
    tiny.write_text(tiny.read_text() + TWO)
    words = ("--platform", "one,other", "--json")
    trains("passes", "crash", "interrupted")
    cli("run", tiny, *words, "--repeats", "3", "--name", "s")
    stand_in = trains("passes", "reach")
    assert cli("run", tiny, *words, "--repeats", "3", "--resume", "s").status == 3
    assert stand_in.names == ["other/repeat-1", "other/repeat-2"]
    stand_in = trains(*PASSES)
    done = cli("run", tiny, *words, "--resume", "s")
    assert (done.status, len(done.document["runs"]), done.document["kept"]) == (0, 6, 2)
    assert stand_in.names == ["other/repeat-2", "one/repeat-2", "one/repeat-3", "other/repeat-3"]
    for other, key in (
        (("--platform", "one"), "platform"),
        (("--platform", "one,other", "--repeats", "2"), "runs"),
        (("--platform", "one,other", "--suite"), "command"),
    ):
        assert cli("run", tiny, *other, "--resume", "s", "--json").document["error"]["key"] == key
    listed = cli("runs", "list", "--json").document
    assert (len(listed["runs"]), listed["suites"]) == (6, [])


def test_seeds_are_resumed_by_the_same_command(cli: Run, tiny: Path, trains: Any) -> None:
    trains("passes", "crash")
    cli("run", tiny, "--seeds", "7,11", "--name", "s")
    assert cli("run", tiny, "--resume", "s", "--json").document["error"]["key"] == "runs"
    stand_in = trains(*PASSES)
    assert cli("run", tiny, "--seeds", "7,11", "--resume", "s").status == 0
    assert stand_in.names == ["s/seed-11"]


def test_a_directory_that_is_in_use_is_refused_and_not_touched(cli: Run, file: Path, trains: Any) -> None:
    trains("passes", "interrupted")
    cli("run", file, "--suite", "--name", "s")
    with held_directory(Path("runs/s")):
        made = snapshot()
        done = cli("run", file, "--resume", "s", "--json")
        assert (done.status, done.document["error"]["key"]) == (2, "--resume")
        assert snapshot() == made
        assert cli("runs", "list", "--json").document["suites"][0]["status"] == "running"
    assert cli("run", file, "--resume", "s", "--no-check").status == 0


def stopped(cli: Run, file: Path, trains: Any) -> Path:
    """A suite that stopped in its fifth run; the directory of its first cell."""
    trains(*["passes"] * 4, "interrupted")
    cli("run", file, "--suite", "--name", "s")
    return Path("runs/s/mbs2-short")


def test_a_run_or_a_cell_that_was_deleted_is_made_again(cli: Run, file: Path, trains: Any) -> None:
    cell = stopped(cli, file, trains)
    shutil.rmtree(cell / "repeat-1")
    shutil.rmtree("runs/s/mbs4-long")
    assert cli("check", "s", "--json").document["cells"][3]["status"] == "missing"
    stand_in = trains(*PASSES)
    assert cli("run", file, "--resume", "s").status == 0
    assert stand_in.names[:2] == ["mbs2-short/repeat-1", "mbs4-long/repeat-1"]
    assert len(stand_in.names) == 6


@pytest.mark.parametrize("part", ["mbs2-short", "mbs2-short/repeat-1", "mbs2-short/earlier"])
@pytest.mark.parametrize("kind", ["link", "file"])
def test_nothing_is_read_or_written_through_a_link(cli: Run, file: Path, trains: Any, part: str, kind: str) -> None:
    stopped(cli, file, trains)
    place, elsewhere = Path("runs/s", part), Path("elsewhere")
    if part.endswith("earlier"):
        elsewhere.mkdir()
    else:
        shutil.move(place, elsewhere)
    place.symlink_to(elsewhere.resolve()) if kind == "link" else place.write_text("a file")
    outside = snapshot(elsewhere)
    words = [("run", file, "--resume", "s")]
    words += [] if part.endswith("earlier") else [("check", "s"), ("runs", "show", "s"), ("report", "s")]
    for each in words:
        trains("crash", *PASSES)
        done = cli(*each, "--json") if each[0] != "report" else cli(*each)
        assert done.status == 2, done.out
        assert f"mv runs/s/{part} runs/s.{part.replace('/', '.')}.unreadable" in done.out + done.err
        assert snapshot(elsewhere) == outside
    assert cli("runs", "list", "--json").status == 0


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"schema_version": 99}', '{"schema_version": 1}', "\0"])
def test_a_damaged_run_is_one_error_with_the_way_on(cli: Run, file: Path, trains: Any, content: str) -> None:
    cell = stopped(cli, file, trains)
    (cell / "repeat-1" / "run.json").write_text(content)
    trains(*PASSES)
    done = cli("run", file, "--resume", "s", "--json")
    assert (done.status, set(done.document)) == (2, {"error"})
    ways = ("pip install --upgrade", f"mv {cell}/repeat-1 runs/s.mbs2-short.repeat-1.unreadable")
    assert done.document["error"]["next"].startswith(ways[content not in ("[]", "null", '{"schema_version": 99}')])
    assert cli("check", "s").status == 2
    shutil.move(cell / "repeat-1", "runs/s.mbs2-short.repeat-1.unreadable")
    assert cli("run", file, "--resume", "s").status == 0


def edited(change: Callable[[dict[str, Any]], Any]) -> str:
    content = json.loads(suite_json().read_text())
    change(content)
    return json.dumps(content)


DAMAGE: dict[str, Callable[[], str]] = {
    "empty": lambda: "",
    "cut short": lambda: suite_json().read_text()[:200],
    "not an object": lambda: "[1]",
    "newer": lambda: edited(lambda content: content.update(schema_version=2)),
    "another key": lambda: edited(lambda content: content.update(more=1)),
    "no cells": lambda: edited(lambda content: content.update(cells=[])),
    "a path above": lambda: edited(lambda content: content["cells"][0].update(directory="../other")),
    "a path above within": lambda: edited(lambda content: content["cells"][0].update(directory="a/..")),
    "an absolute path": lambda: edited(lambda content: content["cells"][0].update(directory="/etc")),
    "a hidden directory": lambda: edited(lambda content: content["cells"][0].update(directory=".ssh")),
    "a run above": lambda: edited(lambda content: content["cells"][0].update(runs=["../../x"])),
    "a name too long": lambda: edited(lambda content: content["cells"][0].update(directory="x" * 5000)),
    "not a name": lambda: edited(lambda content: content["cells"][0].update(directory="\ud800")),
    "one run twice": lambda: edited(lambda content: content["cells"][0].update(runs=["repeat-1", "repeat-1"])),
    "one directory twice": lambda: edited(lambda content: content["cells"][0].update(directory="mbs2-long")),
    "a million cells": lambda: edited(lambda content: content.update(cells=content["cells"][:1] * 10**6)),
    "a hundred thousand runs": lambda: edited(lambda content: content["cells"][0].update(runs=["r"] * 10**5)),
    "nested": lambda: "[" * 10**5,
    "infinite": lambda: edited(lambda content: content["cells"][0].update(planned_gib=float("inf"))),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_suite_is_one_error_and_nothing_is_touched(cli: Run, file: Path, trains: Any, damage: str) -> None:
    stopped(cli, file, trains)
    suite_json().write_text(DAMAGE[damage]())
    made = snapshot()
    for words in (("check", "s"), ("runs", "show", "s"), ("compare", "s", "s"), ("run", file, "--resume", "s")):
        stand_in = trains(*PASSES)
        done = cli(*words, "--json")
        assert (done.status, set(done.document), stand_in.names) == (2, {"error"}, []), words
    assert cli("report", "s").status == 2
    assert cli("runs", "list", "--json").status == 0
    assert snapshot() == made


def test_text_of_a_suite_is_inert(cli: Run, file: Path, trains: Any) -> None:
    stopped(cli, file, trains)
    hostile = "<blink>\x1b[31m\u202e|x"
    suite_json().write_text(
        edited(
            lambda content: (
                content.update(name=hostile, axes=[hostile]),
                content["cells"][0].update(name=hostile, directory=hostile, values={hostile: hostile}),
            )
        )
    )
    for words in (("check", "s"), ("runs", "show", "s"), ("runs", "list")):
        done = cli(*words)
        assert not {"\x1b", "\u202e"} & {*done.out, *done.err}
    assert cli("report", "s", "--to", "html,md").status == 0
    assert "<blink>" not in Path("runs/s/report.html").read_text()


@pytest.mark.parametrize(
    ("words", "key"),
    [
        (("--suite", "--repeats", "0"), "--repeats"),
        (("--suite", "--seeds", "1,1"), "--seeds"),
        (("--suite", "--seeds", "1,2", "--set", "training.seed=3"), "--set"),
        (("--suite", "--seeds", "1,2", "--set", "suite.axes.training.seed=[1,2]"), "--seeds"),
        (("--suite", "--set", "training.micro_batch_size=8"), "--set training.micro_batch_size"),
        (("--suite", "--set", "training.sequence_length=8"), "--set training.sequence_length"),
        (("--suite", "--gpus", "2", "--set", "/suite/axes/gpus=[1,2]"), "--gpus"),
        (("--suite", "--set", "suite.repeats=0"), "suite.repeats"),
        (("--suite", "--set", "suite.axes=3"), "suite.axes"),
        (("--suite", "--set", "suite=3"), "suite"),
        (("--suite", "--set", "suite.exclude=[{length: short}, {length: long}]"), "suite.exclude.1"),
        (("--suite", "--platform", "one"), "--platform"),
        (("--suite", "--model", "llama"), "--model"),
        (("--suite", "--name", "taken"), "--name"),
        (("--suite", "--name", "../x"), "--name"),
        (("--suite", "--resume", "nowhere"), "--resume"),
        (("--resume", "taken"), "--resume"),
        (("--skip-oversized",), "--skip-oversized"),
        (("--suite", "--allow", "SY101"), "--allow"),
        (("--suite", "--repeats", "1000", "--set", f"suite.axes.training.seed={[*range(1000)]}"), "--repeats"),
    ],
)
def test_wrong_input_is_one_document_before_anything_is_made(
    cli: Run, file: Path, trains: Any, words: tuple[str, ...], key: str
) -> None:
    Path("runs/taken").mkdir(parents=True)
    trains()
    done = cli("run", file, *words, "--json")
    assert (done.status, set(done.document), done.document["error"]["key"]) == (2, {"error"}, key), done.out
    assert [path.name for path in Path("runs").iterdir()] == ["taken"]


def test_set_changes_the_suite_of_a_file(cli: Run, file: Path, trains: Any) -> None:
    trains()
    words = ("--set", "suite.repeats=3", "--set", "suite.axes.training.micro_batch_size=[1]", "--no-check", "--json")
    done = cli("run", file, "--suite", "--name", "s", *words)
    assert (done.status, done.document["planned"]) == (0, 6)
    assert {run["cell"] for run in done.document["runs"]} == {"mbs1-short", "mbs1-long"}
    one = cli("run", file, "--suite", "--seeds", "3,5", "--name", "t", "--no-check", "--json").document
    assert {run["name"] for run in one["runs"]} == {"seed-3", "seed-5"}
    alone = cli("run", file, "--no-check", "--name", "u")
    assert alone.status == 0
    assert records.load("runs/u").manifest.experiment.value("training.micro_batch_size") == 2


def test_one_platform_of_a_suite_is_judged_without_changing_the_verdict_of_all(
    cli: Run, file: Path, trains: Any
) -> None:
    file.write_text(file.read_text() + TWO)
    trains("passes", "crash", *PASSES)
    assert cli("run", file, "--suite", "--repeats", "1", "--name", "s").status == 1
    done = cli("check", "s/one", "--json")
    assert (done.status, done.document["verdict"], done.document["platform"]) == (0, "pass", "one")
    assert json.loads(suite_json().read_text())["verdict"] == "fail"


def test_a_note_that_every_cell_has_is_printed_once(cli: Run, file: Path, trains: Any) -> None:
    edit(file, "warmup_steps: 2", "warmup_steps: 5")
    trains()
    done = cli("run", file, "--suite", "--no-check")
    assert done.err.count("SY206") == 1


def test_a_suite_that_would_be_fleets_names_what_to_do_instead(
    cli: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trains: Any
) -> None:
    lab = "\nplatforms:\n  lab: {gpu: cpu, gpus_per_node: 1, container: {image: none}}\n"
    config = tmp_path / "fleet.yaml"
    config.write_text(packaged.text("tiny-llama") + lab + SUITE)
    (tmp_path / "cluster.yaml").write_text("username: me\npriv_key_file: key\nnode_dict: {g1: {}, g2: {}}\n")
    stand_in = trains()
    words = ("run", config, "--cluster", "cluster.yaml", "--suite", "--no-check", "--name", "s", "--json")
    error = cli(*words).document["error"]
    assert (error["key"], error["next"]) == ("--suite", "--nodes 1")
    assert not Path("runs").exists()
    done = cli(*words, "--nodes", "1")
    assert (done.status, len(stand_in.names)) == (0, 8)
    assert {tuple(records.load(run["run"]).manifest.hosts) for run in done.document["runs"]} == {("g1",)}


def test_nodes_as_an_axis_are_one_job_over_the_first_hosts(cli: Run, tmp_path: Path, trains: Any) -> None:
    lab = "\nplatforms:\n  lab: {gpu: cpu, gpus_per_node: 1, container: {image: none}}\n"
    config = tmp_path / "scaling.yaml"
    config.write_text(packaged.text("tiny-llama") + lab + "suite: {axes: {nodes: [1, 2]}}\n")
    (tmp_path / "cluster.yaml").write_text("username: me\npriv_key_file: key\nnode_dict: {g1: {}, g2: {}, g3: {}}\n")
    trains()
    words = ("run", config, "--cluster", "cluster.yaml", "--suite", "--no-check", "--json")
    done = cli(*words, "--name", "s")
    assert done.status == 0, done.out
    manifests = [records.load(run["run"]).manifest for run in done.document["runs"]]
    assert [(made.platform.nodes, made.hosts) for made in manifests] == [(1, ["g1"]), (2, ["g1", "g2"])]
    assert cli(*words, "--nodes", "1").document["error"]["key"] == "--nodes"


def test_all_cells_are_planned_from_one_reading_of_the_file(
    cli: Run, tiny: Path, trains: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from steelyard.configs import files

    reads: list[Path] = []
    original = files._bytes
    monkeypatch.setattr(files, "_bytes", lambda path, *rest: reads.append(path) or original(path, *rest))
    tiny.write_text(TINY + "\nsuite: {axes: {training.seed: [1, 2, 3, 4, 5]}}\n")
    trains()
    assert cli("run", tiny, "--suite", "--no-check").status == 0
    assert len(reads) == 1
