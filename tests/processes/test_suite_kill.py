"""A suite whose runner is killed or interrupted at any moment resumes, and ends as if nothing had happened."""

import json
import os
import random
import re
import signal
import subprocess
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from conftest import Result, command
from processes.test_kill import inside, recorded, wait_until_empty
from steelyard import records

pytestmark = [pytest.mark.torch, pytest.mark.processes]

KILLS = int(os.environ.get("STEELYARD_KILLS", "2"))
"""Random moments; `make soak` asks for 30."""
SEED = 20261119
MATRIX = """
schema_version: 1
name: matrix
model: {preset: tiny-llama}
training:
  micro_batch_size: 2
  global_batch_size: 4
  sequence_length: 16
  steps: 8
  learning_rate: 1e-2
  warmup_steps: 2
precision: {dtype: fp32}
data: {source: markov}
suite:
  axes:
    model.preset: [tiny-llama, tiny-gpt]
    training.micro_batch_size: [1, 2]
    length: {short: {training.sequence_length: 16}, long: {training.sequence_length: 32}}
  repeats: 2
"""
CLOCKED = ("step_times", "stall")
"""Checks whose result depends on what else the machine does."""
ENDLESS = ("--set", "training.steps=1000000")
Shell = Callable[..., Result]


@pytest.fixture
def matrix(tmp_path: Path) -> Path:
    path = tmp_path / "matrix.yaml"
    path.write_text(MATRIX)
    return path


def start(tmp_path: Path, *words: str | Path, core: int = 0) -> "subprocess.Popen[str]":
    """Run a suite on one core: trainings that share cores wait for each other's threads."""
    cores = sorted(os.sched_getaffinity(0))
    return subprocess.Popen(
        command("run", *words, "--json"),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: os.sched_setaffinity(0, {cores[core % len(cores)]}),
    )


def kill(runner: "subprocess.Popen[str]") -> None:
    os.killpg(runner.pid, signal.SIGKILL)
    runner.communicate()


def wait(runner: "subprocess.Popen[str]", ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not ready() and runner.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert runner.poll() is None


def runs_in(suite: Path) -> list[str]:
    """Runs by their path in the suite; those that were made again are under `earlier`."""
    return sorted(path.parent.relative_to(suite).as_posix() for path in suite.rglob("run.json"))


def structure(document: dict[str, Any], report: str) -> dict[str, Any]:
    """What two suites of one file share: everything but times, rates and paths."""
    return {
        "keys": list(document),
        "axes": document["axes"],
        "verdict": document["verdict"],
        "cells": [
            {key: cell[key] for key in ("cell", "name", "values", "runs", "status", "is_expected", "planned_gib")}
            for cell in document["cells"]
        ],
        "figures": [sorted(name for name, value in cell["figures"].items() if value) for cell in document["cells"]],
        "runs": [[run["cell"], run["name"], run["status"], run["verdict"]] for run in document["runs"]],
        "findings": [
            {find["check"]: find["status"] for find in run["findings"] if find["check"] not in CLOCKED}
            for run in document["runs"]
        ],
        "losses": [[step.loss for step in records.steps(run["run"])] for run in document["runs"]],
        "headings": re.findall(r"^#+ .*$", re.sub("killed|whole", "NAME", report), re.MULTILINE),
    }


def judged(shell: Shell, tmp_path: Path, name: str) -> dict[str, Any]:
    checked = shell("check", name, "--json")
    assert checked.status == 0, checked.out + checked.err
    assert shell("report", name, "--to", "md").status == 0
    return structure(checked.document, (tmp_path / "runs" / name / "report.md").read_text())


def test_a_suite_that_is_killed_and_resumed_is_that_of_one_command(shell: Shell, matrix: Path, tmp_path: Path) -> None:
    whole = start(tmp_path, matrix, "--suite", "--name", "whole", core=1)
    runner = start(tmp_path, matrix, "--suite", "--name", "killed")
    killed = tmp_path / "runs" / "killed"
    wait(runner, lambda: len(runs_in(killed)) == 7 and any(map(recorded, killed.glob("*/repeat-1"))))
    (seventh,) = (name for name in runs_in(killed) if records.load(killed / name).status == "running")
    wait(runner, lambda: recorded(killed / seventh) > 0)
    kill(runner)
    assert wait_until_empty(killed / seventh, 10) == []

    (row,) = (row for row in shell("runs", "list", "--json").document["suites"] if row["name"] == "killed")
    assert (row["status"], row["cells"], row["verdict"]) == ("interrupted", 8, None)
    assert shell("check", "killed").status == 5
    before = {name: records.load(killed / name).manifest.provenance.started for name in runs_in(killed)}

    runner = start(tmp_path, matrix, "--resume", "killed")
    resumed = json.loads(runner.communicate()[0])
    assert (runner.returncode, resumed["made"], resumed["kept"]) == (0, 10, 6), resumed
    cell, run = seventh.split("/")
    assert runs_in(killed / cell / "earlier") == [run]
    assert records.load(killed / cell / "earlier" / run).status == "interrupted"
    after = {name: records.load(killed / name).manifest.provenance.started for name in runs_in(killed)}
    assert len(after) == 17
    assert {name: after[name] for name in before if name != seventh} == {
        name: began for name, began in before.items() if name != seventh
    }
    out, _ = whole.communicate()
    assert whole.returncode == 0
    assert json.loads(out).keys() == resumed.keys()
    assert judged(shell, tmp_path, "killed") == judged(shell, tmp_path, "whole")


def test_a_suite_killed_at_random_moments_loses_and_doubles_no_run(shell: Shell, matrix: Path, tmp_path: Path) -> None:
    matrix.write_text(MATRIX.replace("model.preset: [tiny-llama, tiny-gpt]", "training.seed: [1]"))
    moment, kills, made = random.Random(SEED), 0, []
    for number in count():
        suite = tmp_path / "runs" / f"suite{number}"
        while True:
            words = ("--resume", suite.name) if (suite / "suite.json").exists() else ("--suite", "--name", suite.name)
            runner = start(tmp_path, matrix, *words)
            try:
                if kills < KILLS:
                    runner.wait(moment.uniform(0.2, 6.0))
                out, _ = runner.communicate()
                assert (runner.returncode, json.loads(out)["verdict"]) == (0, "pass"), out
                break
            except subprocess.TimeoutExpired:
                kill(runner)
                kills += 1
            for name in runs_in(suite):
                assert wait_until_empty(suite / name, 10) == []
                assert len(list(records.steps(suite / name))) == records.load(suite / name).num_steps
            assert shell("runs", "list", "--json").status == 0
            if (suite / "suite.json").exists():
                assert shell("check", suite.name, "--json").status in (0, 5)
            elif suite.exists():  # killed between the directory and its manifest
                suite.rmdir()
        names = runs_in(suite)
        assert len([name for name in names if "earlier" not in name]) == 8
        interrupted = [records.load(suite / name).status for name in names if "earlier" in name]
        assert set(interrupted) <= {"interrupted", "completed"}
        made.append(judged(shell, tmp_path, suite.name))
        if kills >= KILLS:
            break
    assert all(each["runs"] == made[0]["runs"] and each["losses"] == made[0]["losses"] for each in made)


@pytest.mark.parametrize(("number", "times"), [(signal.SIGINT, 1), (signal.SIGINT, 2), (signal.SIGHUP, 1)])
def test_an_interrupted_suite_exits_130_and_a_second_command_cannot_take_it_while_it_runs(
    shell: Shell, matrix: Path, tmp_path: Path, number: signal.Signals, times: int
) -> None:
    runner = start(tmp_path, matrix, "--suite", "--name", "s", *ENDLESS)
    suite = tmp_path / "runs" / "s"
    run = suite / "tiny-llama-mbs1-short" / "repeat-1"
    wait(runner, lambda: recorded(run) > 2)
    manifest = (suite / "suite.json").read_bytes()
    second = shell("run", matrix, "--resume", "s", *ENDLESS, "--json")
    assert (second.status, second.document["error"]["key"]) == (2, "--resume")
    assert (suite / "suite.json").read_bytes() == manifest
    assert shell("runs", "list", "--json").document["suites"][0]["status"] == "running"
    for _ in range(times):
        runner.send_signal(number)
    out, _ = runner.communicate(timeout=60)
    assert runner.returncode == 130
    document = json.loads(out)
    assert [(made["status"], made["verdict"]) for made in document["runs"]] == [("interrupted", None)]
    assert (document["planned"], document["made"], document["verdict"]) == (16, 1, None)
    assert inside(run) == []
    assert runs_in(suite) == ["tiny-llama-mbs1-short/repeat-1"]
    assert shell("check", "s").status == 5
