"""A file that holds several runs: which one is recorded, and that nothing of the others is in it."""

import io
import json
import os
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from steelyard import ingest, records

Cli = Callable[..., Any]
GIB = 1024


def dump(batch: int, world: int = 8, steps: int = 4) -> list[str]:
    """The arguments that Megatron-LM prints when it starts."""
    values = {"global_batch_size": batch, "seq_length": 1024, "train_iters": steps, "world_size": world}
    return [
        "------------------------ arguments ------------------------",
        *(f"  {name} {'.' * (48 - len(name))} {value}" for name, value in values.items()),
        "-------------------- end of arguments ---------------------",
    ]


def step(number: int, of: int, batch: int, loss: float) -> str:
    return (
        f" [2026-01-20 10:00:{number:02d}] iteration {number:8d}/{of:8d} | consumed samples: {number * batch:12d} |"
        f" elapsed time per iteration (ms): 1000.0 | learning rate: 1.000000E-04 | global batch size: {batch:5d} |"
        f" lm loss: {loss:.6E} | loss scale: 1.0 | grad norm: 1.000 | number of skipped iterations:   0 |"
        " number of nan iterations:   0 |"
    )


def run(batch: int, first: int = 1, last: int = 4, of: int = 4, memory: float = 10.0, loss: float = 11.0) -> list[str]:
    mib = memory * GIB
    return [
        *dump(batch, steps=of),
        *(step(number, of, batch, loss - number / 10) for number in range(first, last + 1)),
        f"[Rank 0] (after {first} iterations) memory (MB) | allocated: {mib:.2f} | max allocated: {mib:.2f} |"
        f" reserved: {mib:.2f} | max reserved: {mib:.2f}",
    ]


DONE = "[after training is done] datetime: 2026-01-20 10:01:00"
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
LOADED = "  successfully loaded checkpoint from /ckpt [ t 1/1, p 1/1 ] at iteration {}"


def write(path: Path, *parts: Sequence[str]) -> Path:
    path.write_text("".join(line + "\n" for part in parts for line in part))
    return path


def test_the_last_of_four_runs_is_recorded_and_none_of_the_others_in_it(cli: Cli, tmp_path: Path) -> None:
    log = write(
        tmp_path / "train.out",
        [*run(16, memory=70, loss=11.0), DONE],
        [*run(32, memory=60, loss=12.0), DONE],
        [*run(64, memory=50, last=2, loss=13.0), "Traceback (most recent call last):", OOM],
        [*run(128, memory=40, loss=14.0), DONE],
    )
    made = cli("ingest", log, "--gpu", "h100", "--json").document
    assert [(entry["number"], entry["first_step"], entry["last_step"]) for entry in made["runs"]] == [
        (1, 1, 4),
        (2, 1, 4),
        (3, 1, 2),
        (4, 1, 4),
    ]
    assert [entry["run"] for entry in made["runs"]] == [None, None, None, made["run"]]
    assert (made["status"], made["steps"], made["failure"]) == ("completed", 4, None)
    recorded = records.load(Path(made["run"]))
    assert recorded.manifest.experiment.value("training.global_batch_size") == 128
    assert [entry.loss for entry in records.steps(recorded.directory)] == [13.9, 13.8, 13.7, 13.6]
    kinds = {event.kind for event in records.events(recorded.directory)}
    assert "oom" not in kinds
    assert "setting_changed" not in kinds
    judged = cli("check", made["run"], "--json").document
    assert judged["figures"]["memory_peak_gib"] == 40
    (notice,) = (each for each in made["notices"] if each["kind"] == "several_runs")
    assert "run 4 of 4" in notice["message"]


@pytest.mark.parametrize(("number", "batch", "memory"), [(1, 16, 70.0), (2, 32, 60.0)])
def test_a_run_is_chosen_by_its_number(cli: Cli, tmp_path: Path, number: int, batch: int, memory: float) -> None:
    log = write(tmp_path / "train.out", [*run(16, memory=70), DONE], [*run(32, memory=60), DONE])
    made = cli("ingest", log, "--run", number, "--json").document
    recorded = records.load(Path(made["run"]))
    assert recorded.manifest.experiment.value("training.global_batch_size") == batch
    assert recorded.manifest.ingested is not None
    assert recorded.manifest.ingested.run == number
    assert cli("check", made["run"], "--json").document["figures"]["memory_peak_gib"] == memory
    first = next(iter(records.steps(recorded.directory)))
    assert first.source is not None
    line = (recorded.directory / first.source.file).read_text().splitlines()[first.source.line - 1]
    assert f"global batch size: {batch:5d}" in line


def test_all_runs_are_recorded_by_number(cli: Cli, tmp_path: Path) -> None:
    log = write(tmp_path / "train.out", [*run(16), DONE], [*run(32), DONE], [*run(64), DONE])
    made = cli("ingest", log, "--run", "all", "--name", "job", "--json").document
    assert [Path(entry["run"]).name for entry in made["runs"]] == ["job-1", "job-2", "job-3"]
    assert made["run"] == made["runs"][-1]["run"]
    for entry, batch in zip(made["runs"], (16, 32, 64), strict=True):
        manifest = records.load(Path(entry["run"])).manifest
        assert manifest.experiment.value("training.global_batch_size") == batch
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["job-1", "job-2", "job-3"]


def test_one_of_all_names_that_exists_stops_before_anything_is_written(cli: Cli, tmp_path: Path) -> None:
    log = write(tmp_path / "train.out", [*run(16), DONE], [*run(32), DONE])
    (tmp_path / "runs" / "job-2").mkdir(parents=True)
    done = cli("ingest", log, "--run", "all", "--name", "job", "--json")
    assert (done.status, done.document["error"]["key"]) == (2, "--name")
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["job-2"]


@pytest.mark.parametrize("number", ["0", "3", "-1", "first"])
def test_a_run_that_does_not_exist_is_one_error(cli: Cli, tmp_path: Path, number: str) -> None:
    log = write(tmp_path / "train.out", [*run(16), DONE], [*run(32), DONE])
    done = cli("ingest", log, "--run", number, "--json")
    assert (done.status, done.document["error"]["key"], done.document["error"]["next"] is None) == (2, "--run", False)
    assert not list((tmp_path / "runs").glob("*"))


def test_a_start_after_the_last_step_is_an_unfinished_run(cli: Cli, tmp_path: Path) -> None:
    """A job that was queued again, appended to the same file, and never stepped."""
    log = write(tmp_path / "train.out", [*run(16), DONE], dump(16))
    made = cli("ingest", log, "--json").document
    assert [entry["first_step"] for entry in made["runs"]] == [1, None]
    assert (made["status"], made["steps"]) == ("interrupted", 0)
    judged = cli("check", made["run"], "--json")
    assert (judged.status, judged.document["verdict"]) == (1, "fail")


def test_a_start_that_loads_a_checkpoint_continues_its_run(cli: Cli, tmp_path: Path) -> None:
    log = write(
        tmp_path / "train.out",
        [*run(16, last=2), "Traceback (most recent call last):", OOM],
        dump(16),  # it fails before it loads anything
        ["Traceback (most recent call last):", "ConnectionError: timed out"],
        [*dump(16), LOADED.format(2)],
        [step(3, 4, 16, 10.7), step(4, 4, 16, 10.6), DONE],
    )
    made = cli("ingest", log, "--json").document
    assert len(made["runs"]) == 1
    assert (made["status"], made["steps"]) == ("completed", 4)
    findings = {each["check"]: each for each in cli("check", made["run"], "--json").document["findings"]}
    assert (findings["completed"]["status"], findings["errors"]["code"]) == ("pass", "errors_survived")


def test_options_are_held_against_the_recorded_run_alone(cli: Cli, tmp_path: Path) -> None:
    log = write(tmp_path / "train.out", [*run(16), DONE], [*run(32), DONE])
    stated = ("--set", "training.global_batch_size=32", "--json")
    assert cli("ingest", log, *stated).status == 0
    assert cli("ingest", log, "--run", 1, *stated).status == 2


def test_logs_of_two_nodes_are_cut_at_the_same_runs(cli: Cli, tmp_path: Path) -> None:
    logs = [write(tmp_path / f"node{at}.log", [*run(16), DONE], [*run(32), DONE]) for at in range(2)]
    made = cli("ingest", *logs, "--json").document
    assert (len(made["runs"]), made["steps"]) == (2, 4)
    assert records.load(Path(made["run"])).manifest.experiment.value("training.global_batch_size") == 32


def test_errors_in_a_file_of_their_own_belong_to_the_last_run(cli: Cli, tmp_path: Path) -> None:
    out = write(tmp_path / "job.out", [*run(16), DONE], run(32, last=2))
    err = write(tmp_path / "job.err", ["slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 10:05 DUE TO TIME LIMIT ***"])
    assert "TIME LIMIT" in cli("ingest", out, err, "--json").document["failure"]["message"]
    assert cli("ingest", out, err, "--run", 1, "--json").document["failure"] is None


def test_standard_input_may_hold_several_runs(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = write(tmp_path / "train.out", [*run(16), DONE], [*run(32), DONE])
    stdin = io.TextIOWrapper(io.BytesIO(log.read_bytes()))
    monkeypatch.setattr(sys, "stdin", stdin)
    made = cli("ingest", "-", "--run", 1, "--json").document
    assert records.load(Path(made["run"])).manifest.experiment.value("training.global_batch_size") == 16
    assert made["files"][0]["path"] == "-"


def test_a_pipe_may_hold_several_runs(cli: Cli, tmp_path: Path) -> None:
    """As in `ingest <(zcat train.log.gz)`: what is in it can be read only once."""
    log, pipe = write(tmp_path / "train.out", [*run(16), DONE], [*run(32), DONE]), tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(log.read_bytes()), daemon=True)
    writer.start()
    made = cli("ingest", pipe, "--run", 1, "--json").document
    assert records.load(Path(made["run"])).manifest.experiment.value("training.global_batch_size") == 16
    assert made["files"][0]["path"] == str(pipe)


def test_secrets_of_other_runs_are_removed_too(cli: Cli, tmp_path: Path) -> None:
    secret = "hf_" + "a1B2" * 9
    log = write(tmp_path / "train.out", [*run(16), f"HF_TOKEN={secret}", DONE], [*run(32), DONE])
    made = cli("ingest", log, "--json").document
    kept = (Path(made["run"]) / "logs" / "train.out").read_text()
    assert secret not in kept
    assert len(kept.splitlines()) == len(log.read_text().splitlines())


def test_the_api_records_a_run_by_number(tmp_path: Path) -> None:
    log = write(tmp_path / "train.out", [*run(16), DONE], [*run(32), DONE])
    assert ingest(log, run=1).manifest.experiment.value("training.global_batch_size") == 16
    assert ingest(log, run="all", name="both").directory.name == "both-2"


def test_check_reports_how_many_runs_the_file_held(cli: Cli, tmp_path: Path) -> None:
    log = write(tmp_path / "train.out", [*run(16), DONE], [*run(32), DONE])
    cli("ingest", log, "--name", "last")
    judged = cli("check", "last", "--json").document
    assert (judged["run_in_files"], judged["runs_in_files"]) == (2, 2)
    assert "run 2 of 2 in its file" in cli("check", "last").out
    assert json.loads((tmp_path / "runs" / "last" / "run.json").read_text())["ingested"]["run"] == 2
