"""steelyard run --repeats: several runs of one plan, platforms in turn, each judged."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from conftest import command
from steelyard import records
from steelyard.records import RunManifest, RunWriter

TWO = "\nplatforms:\n  one: {gpu: cpu, gpus_per_node: 1}\n  other: {gpu: cpu, gpus_per_node: 1}\n"
SHORT = ("--set", "training.steps=2", "--set", "training.warmup_steps=1")


@pytest.fixture
def both(tiny: Path) -> Path:
    """The tiny experiment with two platforms that share this machine."""
    tiny.write_text(tiny.read_text() + TWO)
    return tiny


def test_two_platforms_take_turns_and_which_goes_first_alternates(cli: Any, both: Path, trains: Any) -> None:
    stand_in = trains()
    done = cli("run", both, "--platform", "one,other", "--repeats", "3", "--name", "s", "--no-check", "--json")
    assert done.status == 0, done.out
    expected = ["one/1", "other/1", "other/2", "one/2", "one/3", "other/3"]
    assert stand_in.names == [name.replace("/", "/repeat-") for name in expected]
    document = done.document
    assert document["directories"] == {name: str(Path("runs/s", name).resolve()) for name in ("one", "other")}
    assert [(run["platform"], run["repeat"]) for run in document["runs"][:3]] == [
        ("one", 1),
        ("other", 1),
        ("other", 2),
    ]
    assert (document["planned"], document["verdict"]) == (6, None)
    assert "repeat 2 of 3 on one (run 4 of 6): runs/s/one/repeat-2" in done.err


def test_ten_repeats_sort_as_they_were_made(cli: Any, tiny: Path, trains: Any) -> None:
    trains()
    cli("run", tiny, "--repeats", "10", "--name", "s", "--no-check")
    made = [records.load(path).manifest.provenance.started for path in records.runs_under(Path("runs/s"))]
    assert len(made) == 10
    assert made == sorted(made)


@pytest.mark.parametrize(
    ("endings", "made", "status"),
    [
        (("completed", "crash", "completed"), 3, 1),
        (("crash", "train", "completed"), 3, 3),
        (("completed", "reach", "completed"), 2, 3),
        (("completed", "preflight", "completed"), 2, 3),
        (("completed", "disk full", "completed"), 2, 3),
        (("completed", "interrupted", "completed"), 2, 130),
        (("train", "interrupted", "completed"), 2, 130),
        (("completed", "ctrl-c", "completed"), 2, 130),
    ],
)
def test_what_ends_the_series_and_with_what_status(
    cli: Any, tiny: Path, trains: Any, endings: tuple[str, ...], made: int, status: int
) -> None:
    trains(*endings)
    done = cli("run", tiny, "--repeats", "3", "--name", "s", "--no-check", "--json")
    assert (done.status, len(done.document["runs"])) == (status, made)
    assert ("error" in done.document) == (status == 3)
    assert [records.load(path).status for path in records.runs_under(Path("runs/s"))] == [
        {"crash": "failed", "ctrl-c": "interrupted"}.get(
            ending, ending if ending in ("completed", "interrupted") else "failed"
        )
        for ending in endings[:made]
    ]


def test_what_was_not_made_is_said_with_the_reason_and_the_remedy(cli: Any, tiny: Path, trains: Any) -> None:
    trains("completed", "image")
    done = cli("run", tiny, "--repeats", "4", "--name", "s", "--no-check")
    assert done.status == 3
    expected = (
        "steelyard: infrastructure failure in 1 of 4 runs; 2 runs not started: "
        "repeat-2: no route to host (in image); next: ping it"
    )
    assert expected in done.err
    assert "2 of 4 runs made" in done.out


def test_seeds_give_a_run_each_and_repeats_keep_the_experiment_s(cli: Any, tiny: Path, trains: Any) -> None:
    trains()
    done = cli("run", tiny, "--seeds", "7,11", "--name", "varied", "--no-check", "--json")
    assert [(Path(run["run"]).name, run["seed"]) for run in done.document["runs"]] == [("seed-7", 7), ("seed-11", 11)]
    kept = cli("run", tiny, "--repeats", "2", "--no-check", "--json").document
    own = records.load(kept["runs"][0]["run"]).manifest.experiment.value("training.seed")
    assert [run["seed"] for run in kept["runs"]] == [own, own]
    assert Path(kept["repeats"]).name.endswith("-tiny-llama-cpu")


@pytest.mark.parametrize(
    ("words", "key"),
    [
        (("--repeats", "0"), "--repeats"),
        (("--seeds", "1,x"), "--seeds"),
        (("--seeds", "1,1"), "--seeds"),
        (("--seeds", "1,01"), "--seeds"),
        (("--seeds", f"1,{2**63}"), "--seeds"),
        (("--seeds", f"1,{'7' * 5000}"), "--seeds"),
        (("--seeds", "1,"), "--seeds"),
        (("--seeds", "1,2", "--repeats", "3"), "--repeats"),
        (("--seeds", "1,2", "--set", "training.seed=3"), "--set"),
        (("--platform", "one,one", "--repeats", "2"), "--platform"),
        (("--platform", "one,none", "--repeats", "2"), "--platform"),
        (("--platform", "one,other"), "--platform"),
        (("--repeats", "2"), "--platform"),
        (("--platform", "one", "--repeats", "2", "--resume", "x"), "--resume"),
        (("--platform", "one", "--repeats", "2", "--name", "taken"), "--name"),
    ],
)
def test_wrong_input_is_named_before_anything_is_made(cli: Any, both: Path, words: tuple[str, ...], key: str) -> None:
    Path("runs/taken").mkdir(parents=True)
    done = cli("run", both, *words, "--json")
    assert (done.status, done.document["error"]["key"]) == (2, key)
    assert [path.name for path in Path("runs").iterdir()] == ["taken"]


def test_a_seed_too_long_is_one_short_sentence(cli: Any, both: Path) -> None:
    done = cli("run", both, "--platform", "one", "--seeds", f"1,{'7' * 5000}")
    assert done.err.startswith("steelyard: --seeds: '77777")
    assert "' is not a seed, expected whole numbers from 0 to 9223372036854775807, separated by commas" in done.err
    assert len(done.err) < 250


def test_seeds_are_numbers_however_they_are_written(cli: Any, both: Path, trains: Any) -> None:
    error = cli("run", both, "--seeds", "1,01,2", "--json").document["error"]
    assert error["message"].startswith("--seeds '1,01,2' contains a value twice, expected different values")
    assert error["next"] == "--seeds 1,2"
    trains()
    made = cli("run", both, "--platform", "one", "--seeds", f"007,{2**63 - 1}", "--no-check", "--json").document["runs"]
    assert [run["seed"] for run in made] == [7, 2**63 - 1]


def test_a_fleet_is_not_repeated(cli: Any, tmp_path: Path) -> None:
    from steelyard.experiment import packaged

    config = tmp_path / "fleet.yaml"
    lab = "\nplatforms:\n  lab: {gpu: cpu, gpus_per_node: 1, container: {image: none}}\n"
    config.write_text(packaged.text("tiny-llama") + lab)
    (tmp_path / "cluster.yaml").write_text("username: me\npriv_key_file: key\nnode_dict: {g1: {}, g2: {}}\n")
    done = cli("run", config, "--cluster", "cluster.yaml", "--repeats", "2", "--json")
    assert (done.status, done.document["error"]["key"], done.document["error"]["next"]) == (2, "--repeats", "--nodes 1")
    assert not Path("runs").exists()


def test_each_repeat_on_hosts_is_a_job_of_its_own(cli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from steelyard.execute.cluster import hosts_for
    from steelyard.experiment import packaged

    jobs: list[tuple[str | None, list[str], bool]] = []

    def on_hosts(planned: Any, writer: RunWriter, observe: Any, options: Any) -> RunManifest:
        hosts = hosts_for([node.host for node in planned.plan.nodes], options)
        jobs.append((writer.manifest.job, [host.name for host in hosts], options.preflight))
        writer.finish("completed", 0, None)
        return writer.manifest

    monkeypatch.setattr("steelyard.execute.execute", on_hosts)
    config = tmp_path / "wide.yaml"
    wide = "\nplatforms:\n  wide: {gpu: cpu, nodes: 2, gpus_per_node: 1, container: {image: none}}\n"
    config.write_text(packaged.text("tiny-llama") + wide)
    (tmp_path / "cluster.yaml").write_text("username: me\npriv_key_file: key\nnode_dict: {g1: {}, g2: {}}\n")
    (tmp_path / "key").touch()
    done = cli("run", config, "--cluster", "cluster.yaml", "--repeats", "2", "--name", "s", "--no-check", "--json")
    assert done.status == 0, done.out
    assert [job[1:] for job in jobs] == [(["g1", "g2"], True)] * 2
    assert len({job[0] for job in jobs}) == 2
    assert records.load("runs/s/repeat-2").manifest.hosts == ["g1", "g2"]


def test_repeats_are_listed_by_the_names_that_other_verbs_take(
    cli: Any, both: Path, trains: Any, recorded: Any
) -> None:
    trains()
    recorded(to="alone")
    cli("run", both, "--platform", "one", "--repeats", "2", "--name", "s", "--no-check")
    cli("run", both, "--platform", "one,other", "--repeats", "1", "--name", "t", "--no-check")
    listed = [run["name"] for run in cli("runs", "list", "--json").document["runs"]]
    assert sorted(listed) == ["alone", "s/repeat-1", "s/repeat-2", "t/one/repeat-1", "t/other/repeat-1"]
    assert cli("runs", "show", "t/one/repeat-1").status == 0


@pytest.mark.torch
@pytest.mark.processes
def test_repeats_train_are_judged_and_are_a_side_of_a_comparison(shell: Any, both: Path) -> None:
    words = ("--platform", "one,other", "--repeats", "2", "--name", "s", "--json")
    done = shell("run", both, *words)
    assert done.status == 0, done.err
    assert done.document["verdict"] == "pass"
    assert {run["verdict"] for run in done.document["runs"]} == {"pass"}
    assert json.loads(Path("runs/s/one/repeat-1/verdict.json").read_text())["verdict"] == "pass"
    compared = shell("compare", "s/one", "s/other", "--json").document
    assert [[Path(run).name for run in compared[side]] for side in ("target", "baseline")] == [
        ["repeat-1", "repeat-2"]
    ] * 2


@pytest.mark.torch
@pytest.mark.processes
def test_each_seed_trains_another_curve_and_the_worst_verdict_is_the_status(shell: Any, tiny: Path) -> None:
    settings = (*SHORT, "--set", "training.learning_rate=1e30", "--set", "training.steps=5")
    done = shell("run", tiny, "--seeds", "1,2", "--name", "s", *settings)
    assert done.status == 1
    assert "repeats: FAIL  0 of 2 runs passed" in done.out
    assert "  fail  seed-1, seed-2: loss_finite: " in done.out
    first = [next(iter(records.steps(f"runs/s/seed-{seed}"))).loss for seed in (1, 2)]
    assert first[0] != first[1]


@pytest.mark.torch
@pytest.mark.processes
def test_an_interrupt_stops_the_run_and_the_series_and_keeps_what_was_made(tiny: Path, tmp_path: Path) -> None:
    words = ("run", tiny, "--repeats", "3", "--name", "s", "--json", "--set", "training.steps=1000000")
    process = subprocess.Popen(command(*words), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    steps = tmp_path / "runs" / "s" / "repeat-1" / "steps.jsonl"
    deadline = time.monotonic() + 60
    while not (steps.exists() and steps.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    document = json.loads(out)
    assert [(run["status"], run["verdict"]) for run in document["runs"]] == [("interrupted", None)]
    assert (document["planned"], document["verdict"]) == (3, None)
    assert sorted(path.name for path in (tmp_path / "runs" / "s").iterdir()) == ["repeat-1", "suite.json"]
